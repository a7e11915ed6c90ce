"""Metrics of transactions, on a node in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.coordinator.transaction.transaction_metadata import TransactionState
from broker.monitoring.exposition import lines
from broker.monitoring.transaction_tables import TABLES
from broker.replication.add_partitions_to_txn_manager import Transaction
from broker.replication.verification_queue import TransactionOperation
from controller.image import NO_LEADER
from controller.topic_names import TRANSACTION_STATE
from protocol.errors import ErrorCode
from protocol.records.metadata import PartitionChangeRecord
from protocol.records.transactions import TRANSACTION_STATUS
from tests.typed import present
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.node import NODE_ID, Node
from tests.unit.broker.transaction_node import FOLLOWER_ID, TransactionNode

MARKERS = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
LOADS = "kafka_server_transaction_coordinator_metrics_partition_load_time_"
VERIFICATIONS = "kafka_server_addpartitionstotxnmanager_verification"


@pytest.fixture
def quiet(new_node: NewNode) -> Node:
    node = new_node()
    node.start()
    return node


@pytest.fixture
def coordinated(quiet: Node) -> TransactionNode:
    return TransactionNode(quiet).host()


def samples(node: Node) -> dict[str, float]:
    """Return every sample, by its name and the values of its labels."""
    page = "".join(lines(TABLES, node.node))
    return {
        "/".join((sample.name, *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_broker_without_transactions_has_no_samples_and_no_coordinator(quiet: Node) -> None:
    found = samples(quiet)
    assert not [name for name in found if "transaction" in name or "txn" in name]
    assert quiet.broker.transaction_coordinator is None


def test_transactional_ids_are_counted_by_state(coordinated: TransactionNode) -> None:
    coordinated.producer("idle")
    coordinated.producer("idle-2")
    coordinated.node.wait(coordinated.add(coordinated.producer("open"), name="open"))
    assert states(coordinated) == dict.fromkeys(TRANSACTION_STATUS.values(), 0) | {"Empty": 2, "Ongoing": 1}


def test_counts_by_state_follow_completions_loads_and_removals(coordinated: TransactionNode) -> None:
    none = dict.fromkeys(TRANSACTION_STATUS.values(), 0)
    coordinated.producer("idle")
    producer = coordinated.producer()
    coordinated.node.wait(coordinated.add(producer))
    coordinated.node.wait(coordinated.end(producer))
    coordinated.settle()
    assert states(coordinated) == none | {"Empty": 1, "CompleteCommit": 1}
    coordinated.restart()
    assert states(coordinated) == none | {"Empty": 1, "CompleteCommit": 1}
    coordinated.node.pass_time(7 * 86_400 + 1)
    coordinated.node.wait(coordinated.transactions.expire())
    assert states(coordinated) == none


def states(coordinated: TransactionNode) -> dict[str, float]:
    """Return the number of transactional ids by state."""
    name, found = "barnabas_transactions/", samples(coordinated.node)
    return {key.removeprefix(name): value for key, value in found.items() if key.startswith(name)}


def test_states_have_the_names_of_the_coordinator() -> None:
    assert {state.value: state.display_name for state in TransactionState} == TRANSACTION_STATUS


def test_loads_of_the_last_minute_are_measured(coordinated: TransactionNode) -> None:
    coordinated.producer()
    coordinated.restart()
    found = samples(coordinated.node)
    assert 0 <= found[f"{LOADS}avg"] <= found[f"{LOADS}max"] < 1000
    coordinated.node.pass_time(61)
    assert f"{LOADS}max" not in samples(coordinated.node)


def test_markers_for_partitions_without_a_leader_are_counted(quiet: Node) -> None:
    coordinated = TransactionNode(quiet).host(replicated=True)
    end_without_leader(coordinated)
    assert samples(quiet)[f"{MARKERS}unknowndestinationqueuesize"] == 1
    elect_leader(coordinated)
    coordinated.replicate()
    assert samples(quiet)[f"{MARKERS}unknowndestinationqueuesize"] == 0
    assert coordinated.state() == "CompleteCommit"


def test_completions_that_could_not_be_written_are_counted(quiet: Node) -> None:
    coordinated = TransactionNode(quiet).host(replicated=True, min_isr=2)
    end_without_leader(coordinated)
    set_isr(coordinated, [NODE_ID])
    elect_leader(coordinated)
    assert samples(quiet)[f"{MARKERS}logappendretryqueuesize"] == 1
    set_isr(coordinated, [NODE_ID, FOLLOWER_ID])
    coordinated.node.pass_time(0.5)
    coordinated.replicate()
    assert samples(quiet)[f"{MARKERS}logappendretryqueuesize"] == 0
    assert coordinated.state() == "CompleteCommit"


def set_isr(coordinated: TransactionNode, isr: list[int]) -> None:
    """Change the ISR of the partition that coordinates `t`."""
    topic = present(coordinated.node.image.topic(TRANSACTION_STATE))
    change = PartitionChangeRecord(partition_id=coordinated.index(), topic_id=topic.topic_id, isr=isr)
    coordinated.node.commit(change)


def end_without_leader(coordinated: TransactionNode) -> None:
    """Commit a transaction that has a partition without a leader."""
    producer = coordinated.producer_of(committed(coordinated, coordinated.init()))
    committed(coordinated, coordinated.add(producer, ("x", 0), ("x", 1)))
    coordinated.node.elect("x", NO_LEADER, index=1)
    committed(coordinated, coordinated.end(producer))


def committed(coordinated: TransactionNode, outcome: Any) -> Any:
    """Return an outcome, which may wait for the follower of the coordinator's partition."""
    coordinated.settle()
    coordinated.replicate()
    return coordinated.node.wait(outcome)


def elect_leader(coordinated: TransactionNode) -> None:
    coordinated.node.elect("x", NODE_ID, index=1)
    coordinated.node.pass_time(0.2)


def test_verifications_are_timed_and_failures_counted(coordinated: TransactionNode) -> None:
    producer = coordinated.producer()
    coordinated.node.wait(coordinated.add(producer))
    verifications = coordinated.node.broker.transaction_verification
    partitions = {coordinated.node.partition("x", index): 0 for index in (0, 1)}
    operation = TransactionOperation.VERIFY_ABORTABLE
    verified = verifications.verify(Transaction("t", *producer, operation), partitions)
    assert not isinstance(verified, Awaitable)
    assert [error.code for error in verified.errors.values()] == [ErrorCode.TRANSACTION_ABORTABLE]
    found = samples(coordinated.node)
    assert found[f"{VERIFICATIONS}failurerate_total"] == 1
    assert found[f"{VERIFICATIONS}timems_count"] == 1
    assert found[f"{VERIFICATIONS}timems_sum"] >= 0
    assert found[f"{VERIFICATIONS}timems/0.50"] < 1
