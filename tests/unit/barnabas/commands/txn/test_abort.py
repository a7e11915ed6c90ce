from __future__ import annotations

import json

import pytest

from tests.broker_process import BrokerProcess
from tests.unit.barnabas.commands.txn.conftest import Hang, write_outside
from tests.unit.barnabas.conftest import Command


def stable_end(barnabas: Command, topic: str) -> tuple[int, int]:
    """Return the last stable offset and the high watermark of the first partition."""
    (described,) = json.loads(barnabas("topic", "describe", topic, "--json").out)
    partition = described["partitions"][0]
    return partition["stable_end"], partition["end"]


def test_hanging_transaction_is_aborted_by_its_start_offset(barnabas: Command, topic: str, hang: Hang) -> None:
    barnabas("produce", topic, "-p", "0", stdin=b"before\n")
    producer = hang()
    assert stable_end(barnabas, topic) == (1, 2)
    shown = barnabas("txn", "abort", topic, "-p", "0", "--start-offset", "1")
    assert shown == (0, f"aborted {topic}-0: producer {producer}, epoch 0\n", "")
    assert stable_end(barnabas, topic) == (3, 3)
    assert barnabas("txn", "hanging", "-t", topic, "--json").out == "[]\n"


def test_dry_run_aborts_nothing(barnabas: Command, topic: str, hang: Hang) -> None:
    producer = hang()
    shown = barnabas("txn", "abort", topic, "-p", "0", "-o", "0", "--dry-run")
    assert shown == (0, f"would abort {topic}-0: producer {producer}, epoch 0\n", "")
    assert stable_end(barnabas, topic) == (0, 1)


@pytest.mark.parametrize(("mistyped", "note"), [(0, ""), (1, "; nothing of this producer and epoch is open there")])
def test_forced_dry_run_prints_whether_anything_is_open(
    barnabas: Command, topic: str, hang: Hang, mistyped: int, note: str
) -> None:
    producer = hang() + mistyped
    given = ["--producer-id", str(producer), "--producer-epoch", "0", "--coordinator-epoch", "77"]
    shown = barnabas("txn", "abort", topic, "-p", "0", *given, "--force", "--dry-run")
    assert shown == (0, f"would abort {topic}-0: producer {producer}, epoch 0{note}\n", "")


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_transaction_that_its_coordinator_has_is_refused(
    barnabas: Command, ongoing: str, dry_run: tuple[str, ...]
) -> None:
    (row,) = json.loads(barnabas("txn", "list", "--pattern", ongoing, "--json").out)
    producer = row["producer_id"]
    shown = barnabas("txn", "abort", ongoing, "-p", "1", "-o", "0", *dry_run)
    assert (shown.status, shown.out) == (1, "")
    assert shown.err == (
        f"barnabas txn abort: {ongoing}-1: the transaction of producer {producer}, epoch 0, does not hang: broker 1 "
        f"coordinates it as {ongoing}, Ongoing; `barnabas txn terminate {ongoing}` aborts it in all its partitions; "
        "--force aborts it in this partition alone\n"
    )
    given = ["--producer-id", str(producer), "--producer-epoch", "0", "--coordinator-epoch", "0"]
    assert barnabas("txn", "abort", ongoing, "-p", "1", *given, *dry_run).err == shown.err
    assert barnabas("txn", "describe", ongoing, "--json").out.count("Ongoing") == 1


def test_transaction_that_its_coordinator_has_is_aborted_in_one_partition_by_force(
    barnabas: Command, ongoing: str
) -> None:
    barnabas("txn", "abort", ongoing, "-p", "1", "-o", "0", "--force")
    (described,) = json.loads(barnabas("topic", "describe", ongoing, "--json").out)
    assert [one["transactions"] for one in described["partitions"]] == [[], []]
    assert json.loads(barnabas("txn", "describe", ongoing, "--json").out)[0]["state"] == "Ongoing"


def test_transaction_of_a_producer_that_has_another_one_elsewhere_hangs(
    barnabas: Command, ongoing: str, shared_broker: BrokerProcess, settings_of_brokers: None
) -> None:
    (row,) = json.loads(barnabas("txn", "list", "--pattern", ongoing, "--json").out)
    barnabas("config", "set", "brokers", "transaction.partition.verification.enable=false")
    write_outside(shared_broker, ongoing, 0, row["producer_id"])
    shown = barnabas("txn", "abort", ongoing, "-p", "0", "-o", "0", "--dry-run")
    assert shown.out.endswith(f", transactional id {ongoing}\n")
    assert barnabas("txn", "abort", ongoing, "-p", "0", "-o", "0").status == 0
    (described,) = json.loads(barnabas("topic", "describe", ongoing, "--json").out)
    assert [len(one["transactions"]) for one in described["partitions"]] == [0, 1]


def test_hanging_transaction_is_aborted_by_its_producer(barnabas: Command, topic: str, hang: Hang) -> None:
    producer = hang()
    given = ["--producer-id", str(producer), "--producer-epoch", "0", "--coordinator-epoch", "0"]
    (aborted,) = json.loads(barnabas("txn", "abort", topic, "-p", "0", *given, "--json").out)
    assert aborted == {
        "name": f"{topic}-0",
        "result": "aborted",
        "producer_id": producer,
        "producer_epoch": 0,
        "coordinator_epoch": 0,
    }
    assert stable_end(barnabas, topic) == (2, 2)


def test_obsolete_producer_epoch_is_refused(barnabas: Command, topic: str, hang: Hang) -> None:
    producer = str(hang())
    given = ["--producer-id", producer, "--producer-epoch", "3", "--coordinator-epoch", "0", "--force"]
    assert barnabas("txn", "abort", topic, "-p", "0", *given).status == 0
    given[3] = "2"
    shown = barnabas("txn", "abort", topic, "-p", "0", *given)
    assert (shown.status, shown.out) == (1, "")
    assert shown.err == f"barnabas txn abort: {topic}-0: Producer attempted to produce with an old epoch.\n"


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
@pytest.mark.parametrize(("mistyped", "epoch"), [(1, 0), (0, 1)])
def test_producer_without_an_open_transaction_in_the_partition_is_refused(
    barnabas: Command, topic: str, hang: Hang, mistyped: int, epoch: int, dry_run: tuple[str, ...]
) -> None:
    producer = hang()
    wrong = producer + mistyped
    given = ["--producer-id", str(wrong), "--producer-epoch", str(epoch), "--coordinator-epoch", "0"]
    shown = barnabas("txn", "abort", topic, "-p", "0", *given, *dry_run)
    assert (shown.status, shown.out) == (1, "")
    assert shown.err == (
        f"barnabas txn abort: no open transaction of producer {wrong}, epoch {epoch}, in {topic}-0 "
        f"(open: producer {producer}, epoch 0, from 0); --force writes the marker nevertheless\n"
    )
    assert "(open: none)" in barnabas("txn", "abort", topic, "-p", "1", *given).err
    assert stable_end(barnabas, topic) == (0, 1)  # no marker


def test_coordinator_epoch_that_no_coordinator_has_is_refused(barnabas: Command, topic: str, hang: Hang) -> None:
    producer = hang()
    given = ["--producer-id", str(producer), "--producer-epoch", "0", "--coordinator-epoch", "7"]
    shown = barnabas("txn", "abort", topic, "-p", "0", *given)
    assert (shown.status, shown.out) == (1, "")
    assert shown.err == (
        f"barnabas txn abort: {topic}-0: no coordinator has epoch 7: the leaders of __transaction_state have epochs up "
        "to 0; a marker with a later one would fence the coordinator; --force writes the marker nevertheless\n"
    )
    assert stable_end(barnabas, topic) == (0, 1)
    assert barnabas("txn", "abort", topic, "-p", "0", *given, "--force").status == 0
    assert stable_end(barnabas, topic) == (2, 2)


def test_offset_without_a_transaction_is_an_error(barnabas: Command, topic: str, hang: Hang) -> None:
    hang()
    shown = barnabas("txn", "abort", topic, "-p", "0", "-o", "1")
    why = f"{topic}-0: no open transaction starts at offset 1 (open ones start at 0)"
    assert (shown.status, shown.err) == (1, f"barnabas txn abort: {why}\n")


def test_partition_that_does_not_exist_is_an_error(barnabas: Command) -> None:
    shown = barnabas("txn", "abort", "nosuch", "-p", "0", "-o", "1")
    assert (shown.status, shown.err) == (1, "barnabas txn abort: nosuch-0: there is no such topic or partition\n")


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ([], "TOPIC, -p/--partition, -o/--start-offset"),
        (["-p", "0"], "TOPIC, -o/--start-offset"),
        (["t", "-o", "1"], "-p/--partition"),
        (["--producer-id", "1"], "TOPIC, -p/--partition, --producer-epoch, --coordinator-epoch"),
        (["-p", "0", "t", "--coordinator-epoch", "1", "--producer-id", "1"], "--producer-epoch"),
    ],
)
def test_all_missing_arguments_are_named(call: Command, options: list[str], missing: str) -> None:
    shown = call("txn", "abort", *options)
    assert shown.status == 2
    assert shown.err.endswith(f"error: the following arguments are required: {missing}\n")


@pytest.mark.parametrize("options", [["-o", "1", "--producer-id", "1"], ["--producer-id", "1", "-o", "1"]])
def test_producer_and_start_offset_exclude_each_other(call: Command, options: list[str]) -> None:
    shown = call("txn", "abort", "t", "-p", "0", *options)
    assert shown.status == 2
    assert "give either --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch" in shown.err


def test_young_transaction_is_aborted_if_the_largest_timeout_is_shorter(
    barnabas: Command, topic: str, hang: Hang
) -> None:
    hang(age_s=120)
    refused = barnabas("txn", "abort", topic, "-p", "0", "-o", "0", "--max-transaction-timeout", "1h")
    assert refused.status == 1
    assert "no record for 1h0m (--max-transaction-timeout); --force" in refused.err
    assert barnabas("txn", "abort", topic, "-p", "0", "-o", "0", "--max-transaction-timeout", "1m").status == 0
