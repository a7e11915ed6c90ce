"""Rule 26: a topic is usable when the CreateTopics response arrives, every partition at once and without a retry.

``BARNABAS_TEST_NEW_TOPICS`` is the number of topics; the default fits into everyday runs.
"""

import os

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.produce import ProduceRequest
from protocol.primitives import ZERO_UUID
from protocol.record_batch import build_batch
from tests.broker_process import BrokerProcess
from tests.raw_client import RawClient

TOPICS = int(os.environ.get("BARNABAS_TEST_NEW_TOPICS", "100"))
PARTITIONS = 6


def produce(client: RawClient, topic: str) -> list[ErrorCode]:
    """Produce a record to every partition in one request; return each one's error."""
    Topic = ProduceRequest.Topic  # noqa: N806
    parts = [
        Topic.Partition(index=index, records=build_batch([(b"k", b"v")], timestamp_ms=1)) for index in range(PARTITIONS)
    ]
    data = [Topic(name=topic, partition_data=parts)]
    response = client.call(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=data)
    [answer] = response.responses
    return [ErrorCode(partition.error_code) for partition in answer.partition_responses]


def test_rule_26_topic_serves_every_partition_after_create_topics_response(broker: BrokerProcess) -> None:
    creator, producer = RawClient(broker.bootstrap), RawClient(broker.bootstrap)
    try:
        for number in range(TOPICS):
            name = f"new-{number}"
            new = CreateTopicsRequest.Topic(
                name=name, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]
            )
            created = creator.call(ApiKey.CREATE_TOPICS, 7, topics=[new], timeout_ms=10_000, validate_only=False)
            assert [topic.error_code for topic in created.topics] == [ErrorCode.NONE]
            assert produce(producer, name) == [ErrorCode.NONE] * PARTITIONS
            gone = [DeleteTopicsRequest.Topic(name=name, topic_id=ZERO_UUID)]
            creator.call(ApiKey.DELETE_TOPICS, 6, topics=gone, timeout_ms=10_000)
    finally:
        creator.close()
        producer.close()
