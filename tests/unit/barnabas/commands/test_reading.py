"""Reading with an output that fails, and joins of groups. `test_consume.py` covers the records that are read."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer
from kafka import KafkaConsumer, TopicPartition

from barnabas.commands import _reading
from barnabas.commands._offsets import Point, Range
from barnabas.commands._reading import GroupReading, RangeReading
from tests.broker_process import BrokerProcess
from tests.unit.barnabas.conftest import Command


@pytest.fixture
def filled(barnabas: Command, topic: str) -> str:
    barnabas("produce", topic, stdin=b"0\n1\n2\n")
    return topic


@pytest.fixture
def consumer(filled: str, shared_broker: BrokerProcess) -> Iterator[KafkaConsumer]:
    client = KafkaConsumer(bootstrap_servers=shared_broker.bootstrap, group_id=filled, auto_offset_reset="earliest")
    yield client
    client.close()


def test_unprinted_records_are_not_committed(consumer: KafkaConsumer, filled: str) -> None:
    reading = GroupReading(consumer, [filled], until_end=True)

    def print_nothing(records: list[Any]) -> None:
        if records:
            raise BrokenPipeError

    def until_it_breaks() -> None:
        while True:
            with reading.batch(None) as records:
                print_nothing(records)

    with pytest.raises(BrokenPipeError):
        until_it_breaks()
    read: list[Any] = []
    while not reading.done:
        with reading.batch(2) as records:
            read += records
    assert [record.value for record in read] == [b"0", b"1", b"2"]


def test_expected_number_of_records_of_a_range(consumer: KafkaConsumer, filled: str) -> None:
    whole = RangeReading(consumer, [filled], None, Range(Point("offset", 1)), until_end=True)
    assert (whole.expected(None), whole.expected(1), whole.done) == (2, 1, False)
    endless = RangeReading(consumer, [filled], None, Range(), until_end=False)
    assert (endless.expected(None), endless.expected(7)) == (None, 7)
    nothing = RangeReading(consumer, [filled], None, Range(Point("end")), until_end=True)
    assert (nothing.expected(None), nothing.done) == (0, True)


def test_names_beside_a_pattern_are_names(barnabas: Command, shared_broker: BrokerProcess, topic: str) -> None:
    barnabas("topic", "create", f"{topic}.a", f"{topic}-a", f"{topic}-b")
    client = KafkaConsumer(bootstrap_servers=shared_broker.bootstrap, group_id=topic)
    try:
        reading = GroupReading(client, [f"{topic}.a", f"^{topic}-b"], until_end=True)
        while not client.assignment():
            with reading.batch(None):
                pass
        assert {one.topic for one in client.assignment()} == {f"{topic}.a", f"{topic}-b"}
    finally:
        client.close()


@pytest.fixture
def member(barnabas: Command, shared_broker: BrokerProcess, topic: str) -> Iterator[None]:
    """Run a member of the topic's group in a thread; it joins a rebalance within 0.5 s."""
    barnabas("topic", "create", topic)
    settings = {"bootstrap.servers": shared_broker.bootstrap, "group.id": topic, "heartbeat.interval.ms": 500}
    client = Consumer(settings)
    client.subscribe([topic])
    ended = threading.Event()

    def poll() -> None:
        while not ended.is_set():
            client.poll(0.1)

    thread = threading.Thread(target=poll)
    thread.start()
    yield
    ended.set()
    thread.join()
    client.close()


def test_member_completes_a_join_longer_than_its_polls(
    barnabas: Command, shared_broker: BrokerProcess, topic: str, member: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each new topic causes a rebalance; the join waits for the other member, longer than the first polls last. Later
    # polls last long enough for each step of a join, also on a busy machine.
    client = KafkaConsumer(bootstrap_servers=shared_broker.bootstrap, group_id=topic, metadata_max_age_ms=100)
    with closing(client):
        reading = GroupReading(client, [f"^{topic}"], until_end=False)
        deadline = time.monotonic() + 60
        for new in (f"{topic}-1", f"{topic}-2"):
            barnabas("topic", "create", new)
            for number in count():
                if TopicPartition(new, 0) in client.assignment():
                    break
                assert time.monotonic() < deadline, client.group_metadata()
                monkeypatch.setattr(_reading, "POLL_MS", 10 if number < 200 else 1000)
                with reading.batch(None):
                    pass
