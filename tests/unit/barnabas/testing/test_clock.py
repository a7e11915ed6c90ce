from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.testing import Cluster


def test_a_day_expires_records_in_less_than_a_second(one: Cluster) -> None:
    topic = one.topic(config={"retention.ms": 24 * 3_600_000})
    topic.produce(["old"])
    begun = time.monotonic()
    one.clock.advance(hours=25)
    assert time.monotonic() - begun < 1
    assert topic.expect(0) == []
    assert abs(one.clock.now - datetime.now(UTC) - one.clock.advanced) < timedelta(seconds=10)
    topic.produce(["new"])
    assert [record.value for record in topic.records()] == [b"new"]


def test_a_silent_member_loses_its_session(one: Cluster) -> None:
    topic, group = one.topic(), one.group()
    consumer = Consumer({"bootstrap.servers": one.bootstrap, "group.id": group.name, "session.timeout.ms": 45_000})
    consumer.subscribe([topic.name])
    consumer.poll(0.1)
    group.wait_stable(members=1, timeout=60)
    with one.fault("Heartbeat", group=group, hold="before"):
        one.clock.advance(seconds=46)
        group.wait_empty()
    consumer.close()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((30,), r"advance\(30\): which unit\? write for example advance\(seconds=30\)"),
        ((), r"advance\(\) has no time: write for example advance\(hours=25\)"),
    ],
)
def test_a_time_without_a_unit_is_refused(one: Cluster, given: tuple[Any, ...], message: str) -> None:
    before = one.clock.advanced
    with pytest.raises(TypeError, match=message):
        one.clock.advance(*given)
    assert one.clock.advanced == before


def test_a_time_of_zero_changes_nothing(one: Cluster) -> None:
    before = one.clock.advanced
    one.clock.advance(seconds=0)
    one.clock.advance(timedelta())
    assert one.clock.advanced == before


def test_a_broker_that_starts_again_has_the_clock_of_the_others(three: Cluster) -> None:
    topic = three.topic(partitions=3)
    three.brokers[2].kill()
    three.clock.advance(days=1)
    three.brokers[2].start()
    walls = [broker.control.call("GET", "/v1/clock")["wall_ms"] for broker in three.brokers]
    assert max(walls) - min(walls) < 10_000
    topic.produce(["a", "b", "c"])
    assert len(topic.expect(3)) == 3


def test_a_broker_that_was_paused_has_the_clock_of_the_others(three: Cluster) -> None:
    paused = three.brokers[2]
    paused.pause()
    three.clock.advance(hours=1)
    paused.resume()
    assert len({broker.control.call("GET", "/v1/clock")["clock_ms"] for broker in three.brokers}) == 1


def test_a_reset_sets_the_clock_back(one: Cluster) -> None:
    one.clock.advance(timedelta(days=8))
    one.reset()
    assert one.clock.advanced == timedelta()
    assert abs(one.clock.now - datetime.now(UTC)) < timedelta(seconds=10)
    topic = one.topic()
    Producer({"bootstrap.servers": one.bootstrap, "log_level": 0}).produce(topic.name, b"a")
    topic.produce(["b"])
    assert topic.records()


def test_time_does_not_go_back(one: Cluster) -> None:
    with pytest.raises(ValueError, match="cannot go back by 1:00:00"):
        one.clock.advance(hours=-1)
