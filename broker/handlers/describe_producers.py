"""DescribeProducers: the active producers of partitions (KIP-664).

Behaviour
- Lists every producer in the state of a replica here, leader or follower, until `producer.id.expiration.ms` after its
  last batch: its last sequence and timestamp, and the first offset of its open transaction, -1 if it has none.
- NOT_LEADER_OR_FOLLOWER without a replica here; INVALID_TOPIC_EXCEPTION for an invalid topic name.
"""

from broker.broker_server import BrokerServer
from broker.network.connection import RequestContext
from controller.topic_names import check_topic_name
from protocol.errors import KafkaError
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from storage.log.producer_state import ProducerStateEntry

_Partition = DescribeProducersResponse.Topic.Partition
_NO_SEQUENCE = -1


def handle(
    broker: BrokerServer, _context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Return the producers of each partition."""
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.Topic(
                name=topic.name, partitions=[_describe(broker, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _describe(broker: BrokerServer, topic: str, index: int) -> _Partition:
    try:
        check_topic_name(topic)
        partition = broker.replicas.partition(topic, index)
        partition.check(leader_only=False)
    except KafkaError as error:
        return _Partition(
            partition_index=index, error_code=error.code, error_message=error.message or None, active_producers=[]
        )
    producers = partition.log.producers.producers
    return _Partition(partition_index=index, active_producers=[_producer(*producer) for producer in producers.items()])


def _producer(producer_id: int, entry: ProducerStateEntry) -> _Partition.Producer:
    return _Partition.Producer(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.batches[-1].last_sequence if entry.batches else _NO_SEQUENCE,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.txn_first_offset,
    )
