"""TxnOffsetCommit; tests/scripts/groups has the rules of the group."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.coordinator.group.shard import Commit, Offset
from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.coordinator.runtime.shard_host import RECORDS_A_TURN
from broker.replication import add_partitions_to_txn_manager
from controller.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.record_batch import read_header
from tests.unit.broker.group_node import GroupNode
from tests.unit.broker.node import NODE_ID

KEY = ApiKey.TXN_OFFSET_COMMIT
VERSIONS = range(6)
Topic = TxnOffsetCommitRequest.Topic
T_ID = b"t".ljust(16, b"_")
PRODUCER = ProducerIdAndEpoch(7, 2)
LOADING, NOT_AVAILABLE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE


class Coordinator:
    """Stands in for the transaction coordinator: answers with `code`, after `gate`."""

    def __init__(self) -> None:
        self.code = ErrorCode.NONE
        self.gate: asyncio.Future[None] | None = None
        self.seen: list[tuple[str, int, int, bool, str, list[int]]] = []

    async def __call__(self, request: AddPartitionsToTxnRequest, version: int) -> AddPartitionsToTxnResponse:
        request = AddPartitionsToTxnRequest.decode(request.encode(version), version)
        [one] = request.transactions
        [topic] = one.topics
        self.seen.append(
            (one.transactional_id, one.producer_id, one.producer_epoch, one.verify_only, topic.name, topic.partitions)
        )
        if self.gate is not None:
            await self.gate
        rows = AddPartitionsToTxnResponse.Topic
        results = [rows.Partition(partition_index=index, partition_error_code=self.code) for index in topic.partitions]
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResponse.Transaction(
                    transactional_id=one.transactional_id,
                    topic_results=[rows(name=topic.name, results_by_partition=results)],
                )
            ]
        )


@pytest.fixture
def hosting(group_node: GroupNode) -> GroupNode:
    group_node.node.create(TRANSACTION_STATE, partitions=3)
    group_node.node.create("t", partitions=2)
    return group_node


@pytest.fixture
def coordinator(hosting: GroupNode) -> Coordinator:
    coordinator = Coordinator()
    hosting.node.broker.transaction_verification._call_here = coordinator
    return coordinator


def topic(name: str, *partitions: int, offset: int = 9, metadata: str | None = None) -> Topic:
    entries = [
        Topic.Partition(
            partition_index=index, committed_offset=offset, committed_leader_epoch=3, committed_metadata=metadata
        )
        for index in partitions
    ]
    return Topic(name=name, partitions=entries)


def fields(*topics: Topic, **changes: Any) -> dict[str, Any]:
    return {
        "transactional_id": "id",
        "group_id": "g",
        "producer_id": PRODUCER.producer_id,
        "producer_epoch": PRODUCER.epoch,
        "topics": list(topics),
    } | changes


def commit(node: GroupNode, version: int, *topics: Topic, **changes: Any) -> list[tuple[str, list[tuple[int, int]]]]:
    answer = node.answer(KEY, version, **fields(*topics, **changes))
    return [(one.name, [(p.partition_index, p.error_code) for p in one.partitions]) for one in answer.topics]


def end(node: GroupNode, committed: bool = True) -> None:
    node.wait(node.end_transaction(committed, producer=PRODUCER))


@pytest.mark.parametrize("version", VERSIONS)
def test_offset_is_pending_until_the_transaction_commits(
    hosting: GroupNode, coordinator: Coordinator, version: int
) -> None:
    hosting.host()
    assert commit(hosting, version, topic("t", 1, metadata="note")) == [("t", [(1, ErrorCode.NONE)])]
    index = hosting.groups.runtime.partition_of("g")
    adds = version >= 5
    assert coordinator.seen == [("id", *PRODUCER, not adds, CONSUMER_OFFSETS, [index])]
    log = hosting.node.partition(CONSUMER_OFFSETS, index).log
    [part] = log.read(0, 1, limit_offset=1).slices
    header = read_header(part.read(0, part.size_bytes))
    assert (header.producer_id, header.producer_epoch, header.is_transactional) == (*PRODUCER, True)
    assert log.last_stable_offset == 0
    assert hosting.groups.shard_of("g").fetch("g", "t", T_ID, 1) is None
    end(hosting)
    committed = hosting.groups.shard_of("g").fetch("g", "t", T_ID, 1)
    assert committed is not None
    assert (committed.offset, committed.metadata, committed.topic_id) == (9, "note", T_ID)
    assert committed.leader_epoch == (3 if version >= 2 else -1)
    assert (committed.commit_timestamp_ms, committed.expire_timestamp_ms) == (hosting.node.now_ms(), -1)


def test_transaction_is_verified_once_in_a_partition(hosting: GroupNode, coordinator: Coordinator) -> None:
    hosting.host()
    for version, offset in ((5, 1), (5, 2), (3, 3)):
        commit(hosting, version, topic("t", 0, offset=offset))
    assert len(coordinator.seen) == 1
    end(hosting)
    commit(hosting, 5, topic("t", 0, offset=4))
    assert len(coordinator.seen) == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_partitions_and_oversized_metadata_fail_alone(
    hosting: GroupNode, coordinator: Coordinator, version: int
) -> None:
    hosting.host()
    found = commit(hosting, version, topic("t", 0, 9), topic("nowhere", 0), topic("t", 1, metadata="x" * 4097))
    assert found == [
        ("t", [(0, ErrorCode.NONE), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
        ("nowhere", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
        ("t", [(1, ErrorCode.OFFSET_METADATA_TOO_LARGE)]),
    ]


def test_nothing_is_verified_without_an_existing_partition(hosting: GroupNode, coordinator: Coordinator) -> None:
    hosting.host()
    assert commit(hosting, 5, topic("t", 7)) == [("t", [(7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])]
    assert coordinator.seen == []
    assert hosting.state() is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("decided", "reported"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NETWORK_EXCEPTION, LOADING),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_refused_transaction_commits_nothing(
    hosting: GroupNode, coordinator: Coordinator, version: int, decided: ErrorCode, reported: ErrorCode
) -> None:
    hosting.host()
    coordinator.code = decided
    if reported == ErrorCode.TRANSACTION_ABORTABLE and version < 4:
        reported = ErrorCode.INVALID_TXN_STATE
    if reported == LOADING and version < 2:
        reported = NOT_AVAILABLE
    found = commit(hosting, version, topic("t", 0, 9))
    assert found == [("t", [(0, reported), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])]
    assert hosting.records() == []


@pytest.mark.parametrize("version", [3, 4, 5])
def test_rule_15_zombie_members_commit_nothing(hosting: GroupNode, coordinator: Coordinator, version: int) -> None:
    hosting.host()
    member = hosting.stable_member(instance="A")
    for error, changes in (
        (ErrorCode.ILLEGAL_GENERATION, {"member_id": member, "generation_id": 0}),
        (ErrorCode.UNKNOWN_MEMBER_ID, {"member_id": "former", "generation_id": 1}),
        (ErrorCode.FENCED_INSTANCE_ID, {"member_id": "former", "generation_id": 1, "group_instance_id": "A"}),
        (ErrorCode.ILLEGAL_GENERATION, {"member_id": "m", "generation_id": 1, "group_id": "unknown"}),
        (ErrorCode.INVALID_GROUP_ID, {"group_id": ""}),
    ):
        assert commit(hosting, version, topic("t", 0), **changes) == [("t", [(0, error)])]
    assert not hosting.is_pending()
    current = {"member_id": member, "generation_id": 1, "group_instance_id": "A"}
    assert commit(hosting, version, topic("t", 0), **current) == [("t", [(0, ErrorCode.NONE)])]


def test_rule_15_fenced_producer_commits_nothing(hosting: GroupNode, coordinator: Coordinator) -> None:
    hosting.host()
    commit(hosting, 5, topic("t", 0))
    end(hosting)
    assert commit(hosting, 5, topic("t", 0), producer_epoch=1) == [("t", [(0, ErrorCode.INVALID_PRODUCER_EPOCH)])]


@pytest.mark.parametrize(
    ("version", "marker_epoch", "error"),
    [(4, PRODUCER.epoch, ErrorCode.INVALID_TXN_STATE), (5, PRODUCER.epoch + 1, ErrorCode.INVALID_PRODUCER_EPOCH)],
)
def test_rule_14_commit_verified_in_a_former_transaction_is_refused(
    hosting: GroupNode, coordinator: Coordinator, version: int, marker_epoch: int, error: ErrorCode
) -> None:
    hosting.host()
    coordinator.gate = hosting.node.loop.create_future()
    waiting = hosting.node.loop.create_task(hosting.node.query(KEY, version, "c", **fields(topic("t", 0))))
    hosting.settle()
    assert coordinator.seen
    hosting.wait(hosting.end_transaction(False, producer=PRODUCER._replace(epoch=marker_epoch)))
    coordinator.gate.set_result(None)
    [answer] = hosting.wait(waiting).topics
    assert [one.error_code for one in answer.partitions] == [error]
    assert not hosting.is_pending()


def test_a_group_that_moves_during_the_verification_gets_nothing(hosting: GroupNode, coordinator: Coordinator) -> None:
    hosting.host()
    coordinator.gate = hosting.node.loop.create_future()
    waiting = hosting.node.loop.create_task(hosting.node.query(KEY, 5, "c", **fields(topic("t", 0))))
    hosting.settle()
    hosting.node.elect(CONSUMER_OFFSETS, NODE_ID + 1, index=hosting.groups.runtime.partition_of("g"))
    coordinator.gate.set_result(None)
    [answer] = hosting.wait(waiting).topics
    assert [one.error_code for one in answer.partitions] == [ErrorCode.NOT_COORDINATOR]


@pytest.mark.parametrize("version", VERSIONS)
def test_another_broker_coordinates_the_group(hosting: GroupNode, coordinator: Coordinator, version: int) -> None:
    assert commit(hosting, version, topic("t", 0)) == [("t", [(0, ErrorCode.NOT_COORDINATOR)])]
    assert coordinator.seen == []


@pytest.mark.parametrize("version", VERSIONS)
def test_loading_is_not_available_for_the_first_producers(
    hosting: GroupNode, coordinator: Coordinator, version: int
) -> None:
    hosting.host()
    many = [Offset("t", T_ID, index, 5, -1, "") for index in range(2 * RECORDS_A_TURN)]
    hosting.groups.commit(Commit("g", "", None, -1), many, retention_ms=-1, reports_unknown_group=True)
    hosting.restart()
    code = LOADING if version >= 2 else NOT_AVAILABLE
    assert commit(hosting, version, topic("t", 0)) == [("t", [(0, code)])]


def test_waiting_commits_are_limited(
    hosting: GroupNode, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosting.host()
    monkeypatch.setattr(add_partitions_to_txn_manager, "MAX_PENDING_REQUESTS", 1)
    coordinator.gate = hosting.node.loop.create_future()
    waiting = hosting.node.loop.create_task(hosting.node.query(KEY, 5, "c", **fields(topic("t", 0))))
    hosting.settle()
    verification = hosting.node.broker.transaction_verification
    assert verification.pending_requests == 1
    assert commit(hosting, 5, topic("t", 1), transactional_id="other", producer_id=8) == [("t", [(1, NOT_AVAILABLE)])]
    coordinator.gate.set_result(None)
    hosting.wait(waiting)
    assert (verification.pending_requests, verification.pending_bytes) == (0, 0)
