from __future__ import annotations

import json

import pytest

from tests.unit.barnabas.commands.txn.conftest import Hang
from tests.unit.barnabas.conftest import Command


def found(barnabas: Command, *options: str) -> list[tuple[str, int, int, int]]:
    shown = barnabas("txn", "hanging", "--json", *options)
    assert (shown.status, shown.err) == (0, "")
    return [(one["topic"], one["partition"], one["producer_id"], one["start"]) for one in json.loads(shown.out)]


def test_transaction_that_no_coordinator_has_hangs(barnabas: Command, topic: str, hang: Hang) -> None:
    barnabas("produce", topic, "-p", "1", stdin=b"before\n")
    producer = hang(1)
    assert found(barnabas, "-t", topic) == [(topic, 1, producer, 1)]
    assert (topic, 1, producer, 1) in found(barnabas)
    assert (topic, 1, producer, 1) in found(barnabas, "--broker", "1")
    header, row = (line.split() for line in barnabas("txn", "hanging", "-t", topic).lines)
    assert header == [
        "TOPIC", "PARTITION", "PRODUCER-ID", "PRODUCER-EPOCH", "COORDINATOR-EPOCH", "START", "LAST-RECORD", "DURATION",
    ]  # fmt: skip
    assert row[:6] == [topic, "1", str(producer), "0", "-1", "1"]
    assert row[7].startswith("1h0m")


def test_partitions_are_selected(barnabas: Command, topic: str, hang: Hang) -> None:
    hang(0)
    second = hang(1)
    assert found(barnabas, "-t", topic, "-p", "1") == [(topic, 1, second, 0)]
    assert [one[1] for one in found(barnabas, "-t", f"^{topic}$")] == [0, 1]


def test_transaction_that_may_still_be_in_progress_does_not_hang(barnabas: Command, topic: str, hang: Hang) -> None:
    hang(age_s=60)
    assert found(barnabas, "-t", topic) == []
    assert len(found(barnabas, "-t", topic, "--max-transaction-timeout", "30s")) == 1


def test_transaction_that_its_coordinator_has_does_not_hang(barnabas: Command, ongoing: str) -> None:
    assert found(barnabas, "-t", ongoing, "--max-transaction-timeout", "0ms") == []


def test_hanging_transactions_are_marked_in_the_description_of_their_topic(
    barnabas: Command, topic: str, hang: Hang
) -> None:
    producers = [hang() for _ in range(7)]
    shown = barnabas("topic", "describe", topic)
    _title, _header, *rows = shown.lines[shown.lines.index("read_committed consumers wait at STABLE-END for:") :]
    assert [row.split() for row in rows[:5]] == [
        ["0", "0", "7", str(producer), "0", str(start), "1h0m", "hanging", "-"]
        for start, producer in enumerate(producers[:5])
    ]
    assert rows[5] == "partition 0 has 7 open transactions; the 5 oldest are shown"
    why = f"no coordinator ends the hanging transaction of producer {producers[0]}"
    assert rows[6] == f"{why}: `barnabas txn abort {topic} -p 0 -o 0` does"
    assert len(rows) == 11
    (described,) = json.loads(barnabas("topic", "describe", topic, "--json").out)
    assert [one["state"] for one in described["partitions"][0]["transactions"]] == ["hanging"] * 7


def test_young_transaction_that_no_coordinator_lists_is_not_marked(barnabas: Command, topic: str, hang: Hang) -> None:
    hang(age_s=60)
    shown = barnabas("topic", "describe", topic)
    assert shown.lines[-1].split()[-2:] == ["-", "-"]
    assert "hanging" not in shown.out


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["-p", "0"], 2, "--partition needs one --topic"),
        (["-p", "0", "-t", "a", "-t", "b"], 2, "--partition needs one --topic"),
        (["-t", "nosuch"], 1, "nosuch: there is no such topic"),
        (["--broker", "9"], 1, "there is no broker 9"),
    ],
)
def test_what_does_not_exist_is_reported(barnabas: Command, options: list[str], status: int, message: str) -> None:
    shown = barnabas("txn", "hanging", *options)
    assert shown.out == ""
    assert (shown.status, shown.err) == (status, f"barnabas txn hanging: {message}\n")


def test_partition_that_does_not_exist_is_reported(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    shown = barnabas("txn", "hanging", "-t", topic, "-p", "7")
    assert shown.out == ""
    assert (shown.status, shown.err) == (1, f"barnabas txn hanging: {topic}: there is no partition 7\n")
