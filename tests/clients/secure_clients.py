"""What unmodified clients do on a secured listener, whatever the security protocol."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer
from kafka import KafkaConsumer, KafkaProducer

from tests.oracles.apache_kafka import kafka_tool


def read(settings: Mapping[str, str | int | float | bool], topic: str, count: int) -> list[bytes | None]:
    """Return the values of `count` records, read by a member of a group with librdkafka."""
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        return [message.value() for message in consumer.consume(count, timeout=30)]
    finally:
        consumer.close()


def check_kafka_python(settings: Mapping[str, Any], topic: str) -> None:
    """Write the first record of a topic and read it, with kafka-python."""
    with KafkaProducer(**settings) as producer:
        assert producer.send(topic, b"value").get(30).offset == 0
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=30_000, **settings)
    assert next(consumer).value == b"value"
    consumer.close()


def check_console_tools(bootstrap: str, topic: str, config: Path) -> None:
    """Write two records and read them, with Apache Kafka's console tools and their configuration file."""
    common = ("--bootstrap-server", bootstrap, "--topic", topic, "--command-config", str(config))
    writing = kafka_tool("org.apache.kafka.tools.ConsoleProducer", *common)
    subprocess.run(writing, input=b"one\ntwo\n", check=True, timeout=120)
    reading = kafka_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", *common, "--from-beginning", "--max-messages", "2"
    )
    found = subprocess.run(reading, capture_output=True, check=True, timeout=120)
    assert found.stdout.split() == [b"one", b"two"]
