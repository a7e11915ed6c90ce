"""ListTransactions and DescribeTransactions."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from controller.topic_names import TRANSACTION_STATE
from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.node import Node
from tests.unit.broker.transaction_node import PARTITIONS, TransactionNode


@pytest.fixture
def coordinated(new_node: NewNode) -> TransactionNode:
    node = new_node()
    node.start()
    return TransactionNode(node).host()


@pytest.fixture
def used(coordinated: TransactionNode) -> TransactionNode:
    """Coordinate the ids `idle`, `open`, since 50 ms, and `done`, since 100 ms."""
    coordinated.producer("idle")
    done = coordinated.producer("done")
    coordinated.node.wait(coordinated.add(done, ("x", 0), name="done"))
    coordinated.node.wait(coordinated.end(done, name="done"))
    coordinated.node.pass_time(0.05)
    coordinated.node.wait(coordinated.add(coordinated.producer("open"), ("x", 1), ("x", 0), name="open"))
    coordinated.node.pass_time(0.05)
    return coordinated


def query(one: TransactionNode, version: int = 2, **filters: Any) -> Any:
    fields = {"state_filters": [], "producer_id_filters": []} | filters
    return one.node.query(ApiKey.LIST_TRANSACTIONS, version, **fields)


def listed(one: TransactionNode, version: int = 2, **filters: Any) -> Any:
    return one.node.wait(query(one, version, **filters))


def names(one: TransactionNode, version: int = 2, **filters: Any) -> list[str]:
    answer = listed(one, version, **filters)
    assert answer.error_code == ErrorCode.NONE
    return sorted(each.transactional_id for each in answer.transaction_states)


def described(one: TransactionNode, *ids: str) -> Any:
    return one.node.answer(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=list(ids)).transaction_states


@pytest.mark.parametrize("version", range(3))
def test_all_ids_are_listed_with_producer_and_state(used: TransactionNode, version: int) -> None:
    found = {each.transactional_id: each for each in listed(used, version).transaction_states}
    assert {name: each.transaction_state for name, each in found.items()} == {
        "idle": "Empty",
        "done": "CompleteCommit",
        "open": "Ongoing",
    }
    for name, each in found.items():
        metadata = used.transactions.describe(name)
        assert metadata is not None
        assert each.producer_id == metadata.producer_id


@pytest.mark.parametrize(
    ("states", "found", "unknown"),
    [
        ([], ["done", "idle", "open"], []),
        (["Ongoing"], ["open"], []),
        (["Ongoing", "CompleteCommit", "Dead"], ["done", "open"], []),
        (["ongoing"], [], ["ongoing"]),
        (["Nonsense", "Empty", "Nonsense"], ["idle"], ["Nonsense"]),
    ],
)
def test_ids_are_filtered_by_state_and_unknown_states_returned(
    used: TransactionNode, states: list[str], found: list[str], unknown: list[str]
) -> None:
    assert names(used, state_filters=states) == found
    assert listed(used, state_filters=states).unknown_state_filters == unknown


def test_ids_are_filtered_by_producer(used: TransactionNode) -> None:
    producers = {each.transactional_id: each.producer_id for each in listed(used).transaction_states}
    assert names(used, producer_id_filters=[producers["idle"], producers["open"], 99]) == ["idle", "open"]
    assert names(used, producer_id_filters=[99]) == []


@pytest.mark.parametrize(
    ("version", "duration_ms", "found"),
    [
        (1, 49, ["done", "idle", "open"]),
        (1, 51, ["done", "idle"]),
        (1, 200, ["idle"]),
        (1, -1, ["done", "idle", "open"]),
        (0, -1, ["done", "idle", "open"]),
    ],
)
def test_ids_are_filtered_by_duration_and_an_id_without_transaction_is_older_than_any(
    used: TransactionNode, version: int, duration_ms: int, found: list[str]
) -> None:
    filters = {"duration_filter": duration_ms} if version else {}
    assert names(used, version, **filters) == found


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("o.*", ["open"]), ("(?i)O.en|I\\w+", ["idle", "open"]), ("pe", []), ("", ["done", "idle", "open"])],
)
def test_ids_are_filtered_by_a_pattern_that_matches_all_of_them(
    used: TransactionNode, pattern: str, found: list[str]
) -> None:
    assert names(used, transactional_id_pattern=pattern) == found


@pytest.mark.parametrize("pattern", ["(", "a**", "(?=a)"])
def test_invalid_pattern_is_refused(used: TransactionNode, pattern: str) -> None:
    with pytest.raises(KafkaError, match="INVALID_REGULAR_EXPRESSION"):
        query(used, transactional_id_pattern=pattern)


def test_nothing_is_listed_or_described_while_loading(used: TransactionNode) -> None:
    restart_without_loading(used)
    with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        query(used, transactional_id_pattern="(")
    (one,) = described(used, "idle")
    assert one.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    used.settle()
    assert names(used) == ["done", "idle", "open"]


def restart_without_loading(used: TransactionNode) -> None:
    used.transactions.stop()
    used.node.broker.transaction_coordinator = None
    used.node.replicas.on_leadership(TRANSACTION_STATE, used.transactions.runtime.leadership_changed)


def test_failed_load_is_an_error_beside_the_loaded_ids(used: TransactionNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CoordinatorRuntime, "failures", {0: "damaged"})
    answer = listed(used)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(answer.transaction_states) == 3


def test_open_transaction_is_described_with_its_partitions(used: TransactionNode) -> None:
    (one,) = described(used, "open")
    metadata = used.transactions.describe("open")
    assert metadata is not None
    assert (one.error_code, one.transactional_id, one.transaction_state) == (0, "open", "Ongoing")
    assert (one.producer_id, one.producer_epoch) == (metadata.producer_id, metadata.producer_epoch)
    assert (one.transaction_timeout_ms, one.transaction_start_time_ms) == (60_000, metadata.start_ms)
    assert [(topic.topic, topic.partitions) for topic in one.topics] == [("x", [0, 1])]


def test_ids_have_independent_results_in_the_order_of_the_request(used: TransactionNode) -> None:
    found = described(used, "nosuch", "", "idle")
    assert [(each.transactional_id, each.error_code) for each in found] == [
        ("nosuch", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_REQUEST),
        ("idle", ErrorCode.NONE),
    ]


def test_id_that_is_named_many_times_is_described_once(used: TransactionNode) -> None:
    found = described(used, *["open", "idle"] * 100)
    assert [each.transactional_id for each in found] == ["open", "idle"]


def test_id_that_is_coordinated_elsewhere_is_not_described(used: TransactionNode) -> None:
    for index in range(PARTITIONS):
        used.transactions.runtime.leadership_changed(index, None)
    (one,) = described(used, "idle")
    assert one.error_code == ErrorCode.NOT_COORDINATOR
    assert names(used) == []


def test_uncommitted_state_is_not_shown(new_node: NewNode) -> None:
    node = new_node()
    node.start()
    one = TransactionNode(node).host(replicated=True)
    one.init("new")
    one.settle()
    assert names(one) == []
    assert described(one, "new")[0].error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    one.replicate()
    one.replicate()
    assert names(one) == ["new"]


def test_many_ids_are_listed_in_steps(coordinated: TransactionNode) -> None:
    count = 2_000
    for number in range(count):
        coordinated.producer(f"id-{number}")
    node: Node = coordinated.node
    pending = query(coordinated, transactional_id_pattern="id-.*")
    assert not hasattr(pending, "transaction_states")
    assert len(node.wait(pending).transaction_states) == count


def test_many_ids_are_described_in_steps(used: TransactionNode) -> None:
    ids = ["idle", *(f"nosuch-{number}" for number in range(1_000))]
    pending = used.node.query(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=ids)
    assert not hasattr(pending, "transaction_states")
    assert [one.transactional_id for one in used.node.wait(pending).transaction_states] == ids


def test_long_ids_are_described_one_a_step(used: TransactionNode) -> None:
    ids = [f"{number}{'x' * 32_000}" for number in range(100)]
    task = used.node.loop.create_task(used.node.query(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=ids))
    turns = 0
    while not task.done():
        used.node.pass_time(0)
        turns += 1
    assert turns >= 8
    assert {one.error_code for one in task.result().transaction_states} == {ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}
