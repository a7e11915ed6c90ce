from __future__ import annotations

import json

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import BrokerResponseError, KafkaStorageError

from tests.unit.barnabas.conftest import Command


@pytest.fixture
def filled(barnabas: Command, topic: str) -> str:
    """A topic with two partitions, and 5 records in partition 0."""
    barnabas("topic", "create", f"{topic}:2")
    barnabas("produce", topic, "-p", "0", stdin=b"0\n1\n2\n3\n4\n")
    return topic


def starts(barnabas: Command, topic: str) -> list[int]:
    (described,) = json.loads(barnabas("topic", "describe", topic, "--json").out)
    return [partition["start"] for partition in described["partitions"]]


def test_records_before_an_offset_are_deleted(barnabas: Command, filled: str) -> None:
    shown = barnabas("topic", "trim", filled, "--to", "2", "-p", "0")
    header, row = [line.split() for line in shown.lines]
    assert header == ["TOPIC", "PARTITION", "START", "NEW-START", "END", "DELETED"]
    assert row == [filled, "0", "0", "2", "5", "2"]
    assert starts(barnabas, filled) == [2, 0]
    assert barnabas("consume", filled, "-e").lines == ["2", "3", "4"]


@pytest.mark.parametrize(
    ("to", "left"), [("end", 5), ("-1", 4), ("@-1h", 0), ("@1", 0), ("@1960-01-01", 0), ("start", 0)]
)
def test_trim_accepts_every_kind_of_offset(barnabas: Command, filled: str, to: str, left: int) -> None:
    assert barnabas("topic", "trim", filled, "--to", to).status == 0
    assert starts(barnabas, filled) == [left, 0]


def test_a_dry_run_deletes_nothing(barnabas: Command, filled: str) -> None:
    (row, _) = json.loads(barnabas("topic", "trim", filled, "--to", "end", "--dry-run", "--json").out)
    assert (row["new_start"], row["deleted"]) == (5, 5)
    assert starts(barnabas, filled) == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["{topic}", "--to", "9", "-p", "0"], 1, "{topic}, partition 0: it ends at 5, before 9"),
        (["{topic}", "--to", "1", "-p", "7"], 1, "{topic} has partitions 0 to 1"),
        (["missing", "--to", "1"], 1, "missing: there is no such topic"),
        (["^{topic}", "--to", "1"], 2, "^{topic} is a pattern: trim takes the name of one topic"),
        (["{topic}", "--to", "stored"], 2, "write start, end, a number N, -N, +N or @TIME"),
    ],
)
def test_invalid_trim_deletes_nothing(
    barnabas: Command, filled: str, arguments: list[str], status: int, complaint: str
) -> None:
    shown = barnabas("topic", "trim", *(argument.format(topic=filled) for argument in arguments))
    assert (shown.status, shown.out) == (status, "")
    assert complaint.format(topic=filled) in shown.err
    assert starts(barnabas, filled) == [0, 0]


def test_trim_to_invalid_text_lists_the_valid_forms(barnabas: Command) -> None:
    shown = barnabas("topic", "trim", "t", "--to", "foo")
    assert shown.status == 2
    assert shown.err.endswith("'foo': write start, end, a number N, -N, +N or @TIME\n")


@pytest.mark.parametrize("partitions", [1, 2])
def test_trim_not_saved_on_a_full_disk_is_reported(
    barnabas: Command, filled: str, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    def refuse(_: object, offsets: dict[TopicPartition, int]) -> None:
        if partitions == 1:  # kafka-python raises different errors for one partition and for several
            raise KafkaStorageError(f"Error deleting records from topic {filled} partition 0")
        raise BrokerResponseError(f"The following errors occured: {filled}(partition=0): KafkaStorageError")

    monkeypatch.setattr(KafkaAdminClient, "delete_records", refuse)
    shown = barnabas("topic", "trim", filled, "--to", "end")
    assert (shown.status, shown.out) == (1, "")
    assert "KAFKA_STORAGE_ERROR: the log directory is full or has failed" in shown.err
    assert "may be back after a crash" in shown.err


def test_internal_topic_is_trimmed_by_force_only(barnabas: Command, transaction_state: str) -> None:
    line = ["topic", "trim", transaction_state, "--to", "end", "--dry-run"]
    why = "an internal topic with the producer ids and the open transactions of all transactional ids"
    complaint = f"barnabas topic trim: {transaction_state}: {why}: trimming it loses them; --force trims it\n"
    assert barnabas(*line) == (1, "", complaint)
    assert barnabas(*line[:-1]) == (1, "", complaint)
    shown = barnabas(*line, "--force")
    assert (shown.status, shown.err) == (0, "")
    assert shown.lines[1].split()[:2] == [transaction_state, "0"]
