"""Offline partitions: the commands report them, and end.

A time limit is shortened only where a test waits for all of it. Where a test expects a response, the limit is the real
one or longer, because the machine may be busy.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.commands import _reading, _sending, _silence, _unserved, consume
from barnabas.commands._output import CommandError
from barnabas.commands._unserved import why_held_back, why_quiet
from tests.broker_process import COMMAND, BrokerProcess
from tests.typed import present
from tests.unit.barnabas.conftest import Command, Half, Halved, Leaderless, transactional_producer

LONG_S = 60.0


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use long time limits for responses of brokers, such as the reason for offline partitions."""
    monkeypatch.setattr(_unserved, "QUORUM_MS", LONG_S * 1000)
    monkeypatch.setattr(_silence, "SILENT_S", LONG_S)


class ReadingTwoRecords(_reading.RangeReading):
    """A reading that stops waiting for leaders after two records."""

    count = 0

    @contextmanager
    def batch(self, most: int | None) -> Iterator[list[Any]]:
        """Return the next records."""
        with super().batch(most) as records:
            yield records
        self.count += len(records)
        if self.count == 2:
            self.give_up()


def test_requested_offline_partitions_are_named(half: Half, patient: None) -> None:
    options = argparse.Namespace(brokers=[half.bootstrap], settings=[], settings_file=None, timeout=LONG_S)
    lost, kept = half.lost, sorted({0, 1, 2, 3} - set(half.lost))
    with pytest.raises(CommandError, match=rf"^KAFKA_STORAGE_ERROR: t-{lost[0]}, t-{lost[1]} cannot be served"):
        why_quiet(options, ["^t"])
    with pytest.raises(CommandError, match=rf"^KAFKA_STORAGE_ERROR: t-{lost[1]} cannot"):
        why_quiet(options, ["t"], [kept[0], lost[1]])
    assert why_quiet(options, ["t"], kept) is None


def test_partitions_of_an_unreachable_leader_are_reported_as_recoverable(halved: Halved, patient: None) -> None:
    options = argparse.Namespace(brokers=[halved.alive], settings=[], settings_file=None, timeout=LONG_S)
    why = f"broker 1 cannot be reached at {halved.dead} (connection refused)"
    assert why_quiet(options, ["t"]) == f"{', '.join(halved.lost)} cannot be served: {why}"


def test_partitions_without_a_leader_are_reported(
    call: Command, leaderless: Leaderless, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = argparse.Namespace(brokers=[leaderless.bootstrap], settings=[], settings_file=None, timeout=LONG_S)
    why = f"no broker leads {', '.join(leaderless.lost)}"
    assert why_quiet(options, ["t"]) == why
    described = call("topic", "describe", "t", "-b", leaderless.bootstrap)
    assert (described.status, described.out.count(" none "), described.err) == (0, len(leaderless.lost), "")
    monkeypatch.setattr(_reading, "OFFSETS_MS", 500)
    shown = call("consume", "t", "-e", "-b", leaderless.bootstrap)
    assert (shown.status, shown.out) == (1, "")
    assert re.fullmatch(rf"(barnabas consume: {why}; waiting for it\n)?barnabas consume: {why}\n", shown.err)


def test_lost_controller_is_reported_if_all_leaders_respond(halved: Halved) -> None:
    options = argparse.Namespace(brokers=[halved.alive], settings=[], settings_file=None, timeout=LONG_S)
    kept = [int(name.removeprefix("t-")) for name in halved.led]
    assert present(why_quiet(options, ["t"], kept)).startswith("no controller answers")


@pytest.mark.parametrize("explicit", [True, False])
def test_record_that_waits_for_a_producer_id_reports_the_lost_controller(halved: Halved, explicit: bool) -> None:
    which = ["-p", halved.led[0].removeprefix("t-")] if explicit else []
    line = [*COMMAND, "produce", "t", *which, "-b", halved.alive]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as producing:
        present(producing.stdin).write("1\n")
        present(producing.stdin).close()
        why = "no controller answers: it takes more than half of the nodes 1; none can be reached; retrying"
        assert present(producing.stderr).readline() == f"barnabas produce: {why}\n"
        producing.kill()


def test_member_names_the_transaction_that_its_committed_offset_waits_for(
    barnabas: Command, shared_broker: BrokerProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume, "STALLED_S", 0.5)
    monkeypatch.setattr(consume, "GIVE_UP_S", 1.0)
    barnabas("produce", topic, stdin=b"1\n2\n3\n")
    consumer = Consumer({"bootstrap.servers": shared_broker.bootstrap, "group.id": topic})
    producer = transactional_producer(shared_broker, f"id-{topic}")
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 2)], consumer.consumer_group_metadata())
    shown = barnabas("consume", topic, "-g", topic, "-e")
    producer.commit_transaction()
    consumer.close()
    assert (shown.status, shown.out) == (1, "")
    first, second = shown.err.splitlines()
    assert first == second
    assert re.fullmatch(
        rf"barnabas consume: offsets of {topic}-0 are pending: group {topic} waits for the end of the transaction of "
        rf"id-{topic} \(__consumer_offsets-\d+, offset \d+\); `barnabas group describe {topic}` shows them",
        first,
    )
    assert barnabas("consume", topic, "-g", topic, "-e").out == "3\n"


def test_each_unreachable_leader_is_named_with_its_partitions() -> None:
    assert _unserved._unreachable(
        [(["t-0", "t-2"], "broker 1 is away"), ([], "broker 2"), (["t-1"], "broker 3 too")]
    ) == ("t-0, t-2 cannot be served: broker 1 is away; t-1 cannot be served: broker 3 too")
    assert _unserved._unreachable([([], "broker 2 is away")]) is None


def test_no_reason_is_returned_without_a_reachable_broker(halved: Halved) -> None:
    options = argparse.Namespace(brokers=[halved.dead], settings=[], settings_file=None, timeout=LONG_S)
    assert why_quiet(options, ["t"]) is None


def test_reading_ends_with_the_reason(call: Command, half: Half, patient: None) -> None:
    index = str(half.lost[0])
    shown = call("consume", "t", "-p", index, "-b", half.bootstrap)
    assert (shown.status, f"KAFKA_STORAGE_ERROR: t-{index}" in shown.err) == (1, True)


@pytest.mark.parametrize("which", [[], ["-g", "g"]])
def test_reading_with_some_leaderless_partitions_ends_with_the_reason(
    call: Command, half: Half, patient: None, monkeypatch: pytest.MonkeyPatch, which: list[str]
) -> None:
    monkeypatch.setattr(_reading, "OFFSETS_MS", 500)
    began = time.monotonic()
    shown = call("consume", "t", "-e", *which, "-b", half.bootstrap)
    assert (shown.status, f"KAFKA_STORAGE_ERROR: t-{half.lost[0]}" in shown.err) == (1, True)
    assert time.monotonic() - began < 60  # kafka-python without Barnabas' check would wait for 120 s


def test_reading_from_an_unreachable_leader_ends_with_the_reason(
    call: Command, halved: Halved, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_reading, "OFFSETS_MS", 500)
    shown = call("consume", "t", "-e", "-b", halved.alive)
    assert shown.status == 1
    assert shown.err.startswith(
        f"barnabas consume: {', '.join(halved.lost)} cannot be served: broker 1 cannot be reached"
    )


@pytest.mark.parametrize("most", [_sending.MAX_PENDING, 1])
def test_writing_ends_with_the_reason(
    call: Command, half: Half, patient: None, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    lost, kept = half.lost[0], min({0, 1, 2, 3} - set(half.lost))
    monkeypatch.setattr(_sending, "MAX_PENDING", most)
    with monkeypatch.context() as shortened:
        shortened.setattr(_sending, "STALLED_S", 0.5)
        shortened.setattr(_sending, "CLOSE_S", 0.1)
        shown = call("produce", "t", "-p", str(lost), "-b", half.bootstrap, stdin=b"1\n2\n3\n")
    assert (shown.status, f"barnabas produce: KAFKA_STORAGE_ERROR: t-{lost} cannot" in shown.err) == (1, True)
    monkeypatch.setattr(_sending, "STALLED_S", LONG_S)
    assert call("produce", "t", "-p", str(kept), "-b", half.bootstrap, stdin=b"1\n2\n3\n") == (0, "", "")


def test_partitions_with_a_leader_are_read_and_the_others_named(
    call: Command, leaderless: Leaderless, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_reading, "OFFSETS_MS", LONG_S * 1000)
    monkeypatch.setattr(_reading, "LEADER_MS", LONG_S * 1000)
    monkeypatch.setattr(consume, "RangeReading", ReadingTwoRecords)
    (led, *_) = sorted({f"t-{index}" for index in range(4)} - set(leaderless.lost))
    place = ("-b", leaderless.bootstrap, "-m", str(LONG_S))
    assert call("produce", "t", "-p", led.removeprefix("t-"), *place, stdin=b"1\n2\n").status == 0
    shown = call("consume", "t", "-e", *place)
    assert (shown.status, shown.out) == (1, "1\n2\n")
    assert shown.err.endswith(f"barnabas consume: no broker leads {', '.join(leaderless.lost)}\n")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("topic create", ["new"]),
        ("topic alter", ["t", "--partitions", "9"]),
        ("topic add-partitions", ["t", "-n", "9"]),
        ("topic delete", ["t"]),
        ("config set", ["topic/t", "retention.ms=9"]),
        ("config reset", ["topic/t", "retention.ms"]),
    ],
)
def test_waiting_command_reports_that_no_controller_responds(
    halved: Halved, command: str, arguments: list[str]
) -> None:
    line = [*COMMAND, *command.split(), *arguments, "-b", halved.alive, "-m", str(LONG_S)]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as creating:
        why = "no controller answers: it takes more than half of the nodes 1; none can be reached; waiting for it"
        assert present(creating.stderr).readline() == f"barnabas {command}: {why}\n"
        creating.kill()


def test_group_without_coordinator_is_reported_with_an_alternative(
    call: Command, halved: Halved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume, "GIVE_UP_S", 1.0)
    shown = call("consume", "t", "-e", "-g", "g", "-b", halved.alive)
    assert (shown.status, shown.out) == (1, "")
    assert "barnabas consume: no broker coordinates group g: no controller answers" in shown.err
    assert shown.err.endswith(" (without --group, partitions with a leader can be read)\n")


def test_read_committed_consumer_names_the_transaction_that_it_waits_for(
    shared_broker: BrokerProcess, barnabas: Command, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    barnabas("produce", topic, stdin=b"before\n")
    producer = transactional_producer(shared_broker, topic)
    producer.begin_transaction()
    producer.produce(topic, b"held")
    producer.flush()
    reported = []

    def report(command: str, why: str) -> None:
        reported.append((command, why))
        producer.commit_transaction()

    monkeypatch.setattr(consume, "complain", report)
    monkeypatch.setattr(consume, "STALLED_S", 0.1)
    shown = barnabas("consume", topic, "-o", "0:2")
    assert shown == (0, "before\nheld\n", "")
    why = f"{topic}-0 waits at offset 1 for the transaction of {topic}; `barnabas topic describe {topic}` shows them"
    assert reported == [("consume", why)]


def test_only_open_transactions_of_read_partitions_hold_a_consumer_back(
    shared_broker: BrokerProcess, barnabas: Command, topic: str
) -> None:
    barnabas("topic", "create", f"{topic}:2")
    options = argparse.Namespace(brokers=[shared_broker.bootstrap], settings=[], settings_file=None, timeout=LONG_S)
    producer = transactional_producer(shared_broker, topic)
    producer.begin_transaction()
    producer.produce(topic, b"held", partition=1)
    producer.flush()
    assert why_held_back(options, [topic], [0]) is None
    assert (why_held_back(options, [f"^{topic}$"]) or "").startswith(f"{topic}-1 waits at offset 0 for ")
    producer.abort_transaction()
    transactional_producer(shared_broker, topic)  # waits for the markers
    assert why_held_back(options, [topic]) is None


def test_reading_that_ends_before_an_open_transaction_names_it(
    shared_broker: BrokerProcess, barnabas: Command, topic: str
) -> None:
    barnabas("topic", "create", f"{topic}:2")
    barnabas("produce", topic, "-p", "0", stdin=b"before\n")
    producer = transactional_producer(shared_broker, topic)
    producer.begin_transaction()
    for partition in range(2):
        producer.produce(topic, b"held", partition=partition)
    producer.flush()
    why = (
        f"barnabas consume: ended at the last stable offset: {topic}-0 waits at offset 1 for the transaction of {topic}"
        f", {topic}-1 waits at offset 0 for the transaction of {topic}; `barnabas topic describe {topic}` shows them\n"
    )
    assert barnabas("consume", topic, "-e") == (0, "before\n", why)
    assert barnabas("consume", topic, "-o", "@-1h:end") == (0, "before\n", why)
    assert barnabas("consume", topic, "-e", "-g", topic) == (0, "before\n", why)
    for part in (["-e", "-X", "isolation.level=read_uncommitted"], ["-n", "1"], ["-p", "0", "-o", "0:1"]):
        assert barnabas("consume", topic, *part).err == ""
    producer.commit_transaction()
    transactional_producer(shared_broker, topic)  # waits for the markers
    shown = barnabas("consume", topic, "-e")
    assert (sorted(shown.lines), shown.err) == (["before", "held", "held"], "")
