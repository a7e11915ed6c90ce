"""Tests of functions that use confluent-kafka."""

import json

from confluent_kafka import Consumer, Producer


def send_orders(bootstrap, topic, orders):
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for order in orders:
        producer.produce(topic, json.dumps(order).encode(), key=order["customer"])
    producer.flush()


def total_of(bootstrap, topic, group, count):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    messages = consumer.consume(count, timeout=30)
    consumer.commit(asynchronous=False)
    consumer.close()
    return sum(json.loads(message.value())["price"] for message in messages)


def test_orders_are_sent_by_customer(kafka):
    topic = kafka.topic(partitions=3)
    send_orders(kafka.bootstrap, topic.name, [{"customer": "alice", "price": 3}, {"customer": "alice", "price": 4}])
    first, second = topic.expect(2)
    assert (first.partition, first.offset + 1) == (second.partition, second.offset)


def test_the_total_is_that_of_all_orders(kafka):
    topic, group = kafka.topic(partitions=3), kafka.group()
    topic.produce([json.dumps({"price": price}) for price in (1, 2, 3)])
    assert total_of(kafka.bootstrap, topic.name, group.name, 3) == 6
    group.expect_lag(0)
