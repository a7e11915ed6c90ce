from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.broker_process import BrokerProcess
from tests.unit.barnabas.conftest import Command, transactional_producer


@pytest.fixture
def group(barnabas: Command, topic: str) -> str:
    """A group with the name of its topic that has committed offset 2 of 3."""
    barnabas("produce", topic, stdin=b"1\n2\n3\n")
    barnabas("consume", topic, "-g", topic, "-n", "2")
    return topic


def test_offsets_and_lag_of_a_group_without_members(barnabas: Command, group: str) -> None:
    about, table = barnabas("group", "describe", group).lines[:5], barnabas("group", "describe", group).lines[5:]
    assert [line.split() for line in about] == [
        ["GROUP", group],
        ["STATE", "Empty"],
        ["PROTOCOL", "-"],
        ["LAG", "1"],
        ["MEMBERS", "0"],
    ]
    assert [line.split() for line in table] == [
        ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "HOST"],
        [group, "0", "2", "3", "1", "-", "-"],
    ]


def test_the_lag_of_a_group_that_has_committed_nothing_is_not_known(
    barnabas: Command, topic: str, consuming: Callable[[str], AbstractContextManager[None]]
) -> None:
    barnabas("produce", topic, stdin=b"1\n")
    with consuming(topic):
        (described,) = json.loads(barnabas("group", "describe", topic, "--json").out)
    assert (described["lag"], described["partitions"][0]["lag"]) == (None, None)


def test_lag_of_partitions_without_a_committed_offset_is_not_part_of_the_total(
    barnabas: Command, topic: str, consuming: Callable[[str], AbstractContextManager[None]]
) -> None:
    barnabas("topic", "create", f"{topic}:3")
    barnabas("produce", topic, "-p", "1", stdin=b"1\n2\n")
    barnabas("group", "seek", topic, "--to", "start", "--topics", f"{topic}:1")
    with consuming(topic):
        shown = barnabas("group", "describe", topic)
        (described,) = json.loads(barnabas("group", "describe", topic, "--json").out)
    assert "LAG       2 (nothing is committed for 2 partitions)\n" in shown.out
    assert (described["lag"], described["uncommitted_partitions"]) == (2, 2)


def test_members_are_shown_with_their_assignments(
    barnabas: Command, group: str, consuming: Callable[[str], AbstractContextManager[None]]
) -> None:
    with consuming(group):
        (described,) = json.loads(barnabas("group", "describe", group, "--json").out)
        members = barnabas("group", "describe", group, "--members").lines
    assert (described["state"], described["protocol"]) == ("Stable", "range")
    (row,) = described["partitions"]
    assert re.fullmatch(r"me-[0-9a-f-]{36}", row["member"])
    assert row["host"] in ("127.0.0.1", "/127.0.0.1")
    assert members[-1].split()[-2:] == ["1", f"{group}-0"]


def test_offsets_committed_for_a_deleted_topic_have_no_lag(barnabas: Command, group: str) -> None:
    barnabas("produce", f"{group}-kept", stdin=b"1\n")
    barnabas("consume", f"{group}-kept", "-g", f"{group}-2", "-e")
    (described,) = json.loads(barnabas("group", "describe", f"{group}-2", "--json").out)
    assert described["lag"] == 0


@pytest.mark.parametrize("committed_before", [True, False])
def test_offsets_of_an_open_transaction_are_shown_as_pending(
    barnabas: Command, shared_broker: BrokerProcess, topic: str, committed_before: bool
) -> None:
    barnabas("produce", topic, stdin=b"1\n2\n3\n")
    consumer = Consumer({"bootstrap.servers": shared_broker.bootstrap, "group.id": topic})
    if committed_before:
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap, "transactional.id": f"id-{topic}"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 3)], consumer.consumer_group_metadata())
    producer.produce(topic, b"4")
    producer.flush()
    shown = barnabas("group", "describe", topic)
    (described,) = json.loads(barnabas("group", "describe", topic, "--json").out)
    producer.commit_transaction()
    consumer.close()
    assert (shown.status, shown.err) == (0, "")
    committed, lag = ("1", "3") if committed_before else ("-", "-")
    row, pending, held = shown.lines[-3:]
    assert row.split() == [topic, "0", committed, "4", lag, "-", "-"]
    assert re.fullmatch(
        rf"offsets of {topic}-0 are pending, and COMMITTED is older: consumers wait for the end of the transaction of "
        rf"id-{topic} \(__consumer_offsets-\d+, offset \d+\)",
        pending,
    )
    assert held == (
        f"{topic}-0: read_committed members wait at offset 3, before END, for the transaction of id-{topic}"
    )
    assert [(one["pending"], one["stable_end"]) for one in described["partitions"]] == [(True, 3)]
    (described,) = json.loads(barnabas("group", "describe", topic, "--json").out)
    (partition,) = described["partitions"]
    assert (partition["pending"], partition["committed"], described["transactions"]) == (False, 3, [])


def test_a_group_that_does_not_exist_is_named(barnabas: Command, group: str) -> None:
    status, out, err = barnabas("group", "describe", "missing", group)
    assert status == 1
    assert f"GROUP     {group}\n" in out
    assert err == "barnabas group describe: missing: there is no such group\n"


def test_a_mistyped_group_is_answered_with_the_closest_one(barnabas: Command, group: str) -> None:
    typed = group.replace("mistyped", "mytisped")
    shown = barnabas("group", "describe", typed)
    assert shown.err == f"barnabas group describe: {typed}: there is no such group; did you mean {group}?\n"
    assert barnabas("group", "describe", "").err.endswith(": there is no such group: the name is empty\n")


def test_describe_needs_a_group(call: Command) -> None:
    status, _, err = call("group", "describe")
    assert status == 2
    assert "the following arguments are required: GROUP" in err


def test_nothing_is_committed_by_an_aborted_transaction(
    barnabas: Command, shared_broker: BrokerProcess, topic: str
) -> None:
    barnabas("produce", topic, stdin=b"1\n")
    consumer = Consumer({"bootstrap.servers": shared_broker.bootstrap, "group.id": topic})
    producer = transactional_producer(shared_broker, f"id-{topic}")
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], consumer.consumer_group_metadata())
    open_ = barnabas("group", "describe", topic)
    producer.abort_transaction()
    transactional_producer(shared_broker, f"id-{topic}")  # waits for the markers
    consumer.close()
    aborted = barnabas("group", "describe", topic)
    for shown in (open_, aborted):
        assert (shown.status, shown.err) == (0, "")
        assert "LAG       - (nothing is committed)\n" in shown.out
    (described,) = json.loads(barnabas("group", "describe", topic, "--json").out)
    assert (described["lag"], described["partitions"]) == (None, [])
