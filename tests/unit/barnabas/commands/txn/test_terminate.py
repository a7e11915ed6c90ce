from __future__ import annotations

import argparse
import contextlib
import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

import confluent_kafka
import pytest
from confluent_kafka import Producer
from kafka.admin import TransactionDescription

from barnabas.commands.txn import terminate
from barnabas.testing import Cluster
from protocol.api import ApiKey
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from tests.broker_process import BrokerProcess
from tests.raw_client import RawClient
from tests.unit.barnabas.commands.txn.conftest import write_outside
from tests.unit.barnabas.conftest import Command, Leaderless

if TYPE_CHECKING:
    from barnabas.commands._admin import Admin


@pytest.fixture
def one_open(shared_broker: BrokerProcess, barnabas: Command, topic: str) -> Producer:
    """Return a producer whose transaction, of the test's topic as its id, is open in both partitions."""
    barnabas("topic", "create", f"{topic}:2")
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    for partition in range(2):
        producer.produce(topic, b"open", partition=partition)
    producer.flush()
    return producer


def state(barnabas: Command, name: str) -> str:
    (one,) = json.loads(barnabas("txn", "describe", name, "--json").out)
    return str(one["state"])


def test_transaction_is_aborted_in_all_partitions_and_its_producer_fenced(
    barnabas: Command, topic: str, one_open: Producer
) -> None:
    shown = barnabas("txn", "terminate", topic)
    assert (shown.status, shown.err) == (0, "")
    assert shown.out.startswith(f"terminated {topic}: producer ")
    assert shown.out.endswith(", epoch 0, open in 2 partitions\n")
    assert barnabas("consume", topic, "-e", "-X", "isolation.level=read_committed").out == ""
    assert state(barnabas, topic) == "Empty"
    with pytest.raises(confluent_kafka.KafkaException) as fenced:
        one_open.commit_transaction()
    assert fenced.value.args[0].fatal()


def test_dry_run_terminates_nothing(barnabas: Command, topic: str, one_open: Producer) -> None:
    shown = barnabas("txn", "terminate", topic, "--dry-run")
    assert (shown.status, shown.err) == (0, "")
    assert shown.out.startswith(f"would terminate {topic}: producer ")
    assert state(barnabas, topic) == "Ongoing"
    one_open.commit_transaction()


def test_prepared_transaction_is_aborted(barnabas: Command, prepared: str) -> None:
    (terminated,) = json.loads(barnabas("txn", "terminate", prepared, "--json").out)
    assert (terminated["name"], terminated["result"], terminated["partitions"]) == (prepared, "terminated", 1)
    assert state(barnabas, prepared) == "Empty"


def test_id_without_a_transaction_is_fenced(barnabas: Command, shared_broker: BrokerProcess, idle: str) -> None:
    assert barnabas("txn", "terminate", idle).out.endswith(", epoch 0, no open transaction\n")
    client = RawClient(shared_broker.bootstrap)
    described = client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[idle])
    client.close()
    assert described.transaction_states[0].producer_epoch == 1


@pytest.mark.parametrize(
    ("dry_run", "age_s", "when"), [((), 3600, ""), (("--dry-run",), 60, " when it has had no record for 15m0s")]
)
def test_hanging_transaction_that_stays_open_is_named(
    barnabas: Command,
    shared_broker: BrokerProcess,
    topic: str,
    one_open: Producer,
    settings_of_brokers: None,
    dry_run: tuple[str, ...],
    age_s: float,
    when: str,
) -> None:
    barnabas("topic", "alter", topic, "--partitions", "3")
    (row,) = json.loads(barnabas("txn", "list", "--pattern", topic, "--json").out)
    barnabas("config", "set", "brokers", "transaction.partition.verification.enable=false")
    write_outside(shared_broker, topic, 2, row["producer_id"], age_s=age_s)
    shown = barnabas("txn", "terminate", topic, *dry_run)
    assert shown.status == 1
    assert shown.out.endswith(", epoch 0, open in 2 partitions\n")
    assert shown.err == (
        f"barnabas txn terminate: {topic}: producer {row['producer_id']} has a hanging transaction in {topic}-2, which "
        f"its coordinator does not have: `barnabas txn abort {topic} -p 2 -o 0` aborts it{when}\n"
    )
    assert barnabas("txn", "abort", topic, "-p", "2", "-o", "0").status == (1 if when else 0)
    assert barnabas("txn", "abort", topic, "-p", "2", "-o", "0", "--force").status == (0 if when else 1)
    assert barnabas("txn", "terminate", topic).status == 0


def test_decision_that_is_made_stays(call: Command, leaderless: Leaderless) -> None:
    """The markers wait for the leader of their partition."""
    options = ("-b", leaderless.bootstrap)
    lost = int(leaderless.lost[0].removeprefix("t-"))
    with contextlib.closing(RawClient(leaderless.bootstrap)) as client:
        decide(client, leaderless.bootstrap, "paid", lost, committed=True)
        decide(client, leaderless.bootstrap, "refused", lost, committed=False)
    shown = call("txn", "terminate", "paid", "refused", *options)
    assert (shown.status, shown.out) == (1, "")
    assert shown.err == (
        "barnabas txn terminate: paid: its commit is decided; the markers are being written\n"
        "barnabas txn terminate: refused: its abort is decided; the markers are being written\n"
    )
    described = json.loads(call("txn", "describe", "paid", "refused", "--json", *options).out)
    assert [(one["state"], one["producer_epoch"]) for one in described] == [("PrepareCommit", 1), ("PrepareAbort", 1)]


def decide(client: RawClient, bootstrap: str, name: str, partition: int, *, committed: bool) -> None:
    """Begin a transaction in a partition of `t`, of a producer with epoch 1, and end it."""
    settings: dict[str, str | int] = {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0}
    Producer(settings).init_transactions()
    given = client.call(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=name, transaction_timeout_ms=60_000)
    client.call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=given.producer_id,
        v3_and_below_producer_epoch=given.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnRequest.Topic(name="t", partitions=[partition])],
    )
    producer = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
    assert client.call(ApiKey.END_TXN, 4, transactional_id=name, **producer, committed=committed).error_code == 0


@pytest.fixture
def failing() -> Iterator[Cluster]:
    """Return a broker with an open transaction of the id `paid`, which the test makes fail."""
    with Cluster() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "paid", "log_level": 0})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("t", b"open", partition=0)
        producer.flush()
        yield cluster
        del producer


@pytest.mark.parametrize(
    ("disconnect", "status", "out", "err"),
    [
        (
            "before",
            1,
            "",
            r"barnabas txn terminate: paid: .+; nothing was terminated so far, but may still be "
            r"\(`barnabas txn describe paid` shows it\): "
            r"run `barnabas txn terminate paid` again\n",
        ),
        ("after", 0, r"terminated paid: producer \d+, epoch 0, open in 1 partition\n", ""),
    ],
)
def test_lost_response_is_reported_with_what_was_terminated(
    call: Command,
    failing: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    disconnect: Literal["before", "after"],
    status: int,
    out: str,
    err: str,
) -> None:
    monkeypatch.setattr(terminate, "FENCE_S", 1.5)
    with failing.fault("InitProducerId", transactional_id="paid", disconnect=disconnect):
        shown = call("txn", "terminate", "paid", "-b", failing.bootstrap)
    assert shown.status == status
    assert re.fullmatch(out, shown.out)
    assert re.fullmatch(err, shown.err)


def test_lost_coordinator_leaves_unknown_what_was_terminated(
    call: Command, failing: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fence = terminate._fence

    def fence_after_the_loss(
        name: str, before: TransactionDescription, options: argparse.Namespace
    ) -> terminate.Fencing:
        failing.brokers[0].kill()
        return fence(name, before, options)

    monkeypatch.setattr(terminate, "_fence", fence_after_the_loss)
    shown = call("txn", "terminate", "paid", "-b", failing.bootstrap, "--json")
    assert shown.status == 1
    unknown, hanging = (one["error"] for one in json.loads(shown.out))
    assert unknown.startswith("no broker answers at ")
    assert unknown.endswith(
        "; it is unknown whether it was terminated: run `barnabas txn terminate paid` again, which does no harm"
    )
    assert hanging.startswith("cannot look for its hanging transactions: no broker answers at ")
    assert hanging.endswith("; `barnabas txn hanging` finds them")


def test_coordinator_that_cannot_write_is_named(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminate, "FENCE_S", 2.0)
    with Cluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "paid", "log_level": 0})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("t", b"open", partition=0)
        producer.flush()
        (described,) = json.loads(call("txn", "describe", "paid", "--json", "-b", cluster.bootstrap).out)
        for number, broker in enumerate(cluster.brokers, 1):
            if number != described["coordinator"]:
                broker.kill()
        address = cluster.bootstrap.split(",")[described["coordinator"] - 1]
        shown = call("txn", "terminate", "paid", "-b", address, "--timeout", "1")
        del producer
    assert (shown.status, shown.out) == (1, "")
    cause = (
        r"; 1 of the 3 replicas of __transaction_state-\d+ in sync: below min.insync.replicas, the coordinator cannot "
        "write"
    )
    number = described["coordinator"]
    assert re.match(
        rf"barnabas txn terminate: paid: waiting for broker {number}, its coordinator, to abort the transaction, up to "
        rf"2 s \(.+{cause}\)\n"
        rf"barnabas txn terminate: paid: .+{cause}; nothing was terminated so far, but may still be "
        r"\(`barnabas txn describe paid` shows it\): run `barnabas txn terminate paid` again\n",
        shown.err,
    )


def test_interrupted_command_prints_that_the_result_is_unknown(
    barnabas: Command, topic: str, one_open: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = terminate._init_producer_id

    def interrupted(client: Admin, name: str, last: TransactionDescription, timeout_s: float) -> int:
        sent(client, name, last, timeout_s)
        raise KeyboardInterrupt

    monkeypatch.setattr(terminate, "_init_producer_id", interrupted)
    why = f"interrupted; it is unknown whether it was terminated: `barnabas txn describe {topic}` shows its state"
    assert barnabas("txn", "terminate", topic) == (130, "", f"barnabas txn terminate: {topic}: {why}\n")
    (shown,) = json.loads(barnabas("txn", "describe", topic, "--json").out)
    assert shown["producer_epoch"] == 1


def fence_after(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Call `change` after the command has described the id, and before it fences the producer."""
    fence = terminate._fence

    def changed(name: str, before: TransactionDescription, options: argparse.Namespace) -> terminate.Fencing:
        change()
        return fence(name, before, options)

    monkeypatch.setattr(terminate, "_fence", changed)


def test_transaction_that_begins_during_the_command_is_reported(
    barnabas: Command, topic: str, one_open: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_open.commit_transaction()

    def begin() -> None:
        one_open.begin_transaction()
        one_open.produce(topic, b"later", partition=0)
        one_open.flush()

    fence_after(monkeypatch, begin)
    shown = barnabas("txn", "terminate", topic)
    assert (shown.status, shown.err) == (0, "")
    assert re.search(r", a transaction that began meanwhile(, open in 1 partition)?\n$", shown.out)
    assert state(barnabas, topic) == "Empty"


def test_transaction_that_ends_during_the_command_is_not_reported_as_terminated(
    barnabas: Command, topic: str, one_open: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fence_after(monkeypatch, one_open.commit_transaction)
    (terminated,) = json.loads(barnabas("txn", "terminate", topic, "--json").out)
    assert (terminated["result"], terminated["aborted"], terminated["partitions"]) == ("terminated", False, 0)


def test_unknown_id_is_an_error_and_is_not_created(barnabas: Command, idle: str) -> None:
    shown = barnabas("txn", "terminate", "nosuch", idle)
    assert (shown.status, shown.err) == (1, "barnabas txn terminate: nosuch: there is no such transactional id\n")
    assert barnabas("txn", "describe", "nosuch").status == 1
