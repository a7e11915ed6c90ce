"""Batches from a few kilobytes to nearly a megabyte, pipelined on one connection, arrive whole and in order."""

import random

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.broker_process import BrokerProcess

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
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: error and retries.append(str(error)))
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
