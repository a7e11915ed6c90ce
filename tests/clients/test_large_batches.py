"""Batches of every size arrive whole and in order, pipelined on one connection, also above every limit (rule 27)."""

import random

from confluent_kafka import Consumer, Producer, TopicPartition

from protocol.api import ApiKey
from protocol.messages.fetch import FetchRequest
from protocol.messages.metadata import MetadataRequest
from protocol.record_batch import iter_batches
from tests.broker_process import BrokerProcess
from tests.raw_client import RawClient

BATCHES = 400


def test_batches_of_every_size_are_acknowledged_once_and_read_back(broker: BrokerProcess, topic: str) -> None:
    sizes = random.Random(7).choices(range(2_000, 900_000, 997), k=40) + [1_000] * 20 + [17_000, 130_000] * 170
    values = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    retries: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "batch.num.messages": 1,
            "linger.ms": 0,
            "max.in.flight.requests.per.connection": 5,
            "message.send.max.retries": 0,
            "log_level": 0,
        }
    )
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: error and retries.append(str(error)))  # type: ignore[arg-type, func-returns-value]  # narrower than what may come: only this comes here; called for its effect
        producer.poll(0)
    assert producer.flush(60) == 0
    assert retries == []
    assert len(values) == BATCHES

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    for value in values:
        record = consumer.poll(30)
        assert record is not None
        assert record.error() is None
        assert record.value() == value
    consumer.close()


def test_rule_27_batch_larger_than_every_client_limit_is_read(broker: BrokerProcess, topic: str) -> None:
    values = [bytes([number]) * size for number, size in enumerate([900_000, 10, 700_000, 500_000, 10])]
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.num.messages": 1, "log_level": 0})
    for value in values:
        producer.produce(topic, value, partition=0)
        assert producer.flush(30) == 0
    limits = {"max.partition.fetch.bytes": 1000, "fetch.max.bytes": 1000, "message.max.bytes": 1000}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "log_level": 0, **limits})
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert [message.value() for message in consumer.consume(len(values), 30)] == values
    consumer.close()


def test_rule_27_every_version_of_fetch_returns_a_whole_batch_and_ends_at_one(
    broker: BrokerProcess, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.num.messages": 1, "log_level": 0})
    for _ in range(3):
        producer.produce(topic, bytes(100_000), partition=0)
        assert producer.flush(30) == 0
    client = RawClient(broker.bootstrap)
    [described] = client.call(ApiKey.METADATA, 12, topics=[MetadataRequest.Topic(name=topic)]).topics
    for version in range(4, 19):
        for max_bytes, batches in ((1, 1), (150_000, 1), (250_000, 2)):
            part = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)
            names = {"topic": topic} if version < 13 else {"topic_id": described.topic_id}
            wanted = [FetchRequest.Topic(partitions=[part], **names)]
            response = client.call(
                ApiKey.FETCH, version, max_wait_ms=1000, min_bytes=1, max_bytes=max_bytes, topics=wanted
            )
            [[answer]] = [found.partitions for found in response.responses]
            assert sum(1 for _ in iter_batches(bytes(answer.records))) == batches
    client.close()
