"""Broker 1 leads `t` and `u` with ISR {1, 2, 3}."""

from __future__ import annotations

import pytest

from broker.replication.alter_partition_manager import FIRST_BACKOFF_MS, MAX_BACKOFF_MS, AlterPartitionManager
from broker.replication.partition import Partition
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tests.unit.broker.node import Node

SMALLER = frozenset({1, 2})
_Answer = AlterPartitionResponse.Topic.Partition


@pytest.fixture
def partitions(node: Node) -> list[Partition]:
    for name in "tu":
        node.create(name, replicas=(1, 2, 3))
    return [node.partition(name) for name in "tu"]


@pytest.fixture
def partition(partitions: list[Partition]) -> Partition:
    return partitions[0]


@pytest.fixture
def proposals() -> AlterPartitionManager:
    return AlterPartitionManager(1)


def answer(
    partition: Partition, isr: list[int], *, code: int = 0, leader_epoch: int = 0, epoch: int = 1
) -> AlterPartitionResponse:
    one = _Answer(
        partition_index=0, error_code=code, leader_id=1, leader_epoch=leader_epoch, isr=isr, partition_epoch=epoch
    )
    return AlterPartitionResponse(topics=[AlterPartitionResponse.Topic(topic_id=partition.topic_id, partitions=[one])])


def sent(proposals: AlterPartitionManager, now_ms: int = 0) -> AlterPartitionRequest:
    request = proposals.request(9, now_ms)
    assert request is not None
    return request


def test_all_proposals_are_sent_in_one_request(proposals: AlterPartitionManager, partitions: list[Partition]) -> None:
    for partition in partitions:
        partition.update_follower_fetch_state(2, 0, 0, 0, 5)
        proposals.propose(partition, SMALLER)
    request = sent(proposals)
    assert (request.broker_id, request.broker_epoch) == (1, 9)
    assert [topic.topic_id for topic in request.topics] == [partition.topic_id for partition in partitions]
    (wanted,) = request.topics[0].partitions
    assert (wanted.partition_index, wanted.leader_epoch, wanted.partition_epoch) == (0, 0, 0)
    assert wanted.new_isr == []  # Field of version 2, which carries no broker epochs.
    assert [(one.broker_id, one.broker_epoch) for one in wanted.new_isr_with_epochs] == [(1, 9), (2, 5)]


def test_request_carries_broker_epochs_at_time_of_proposal(
    proposals: AlterPartitionManager, partition: Partition
) -> None:
    partition.update_follower_fetch_state(2, 0, 0, 0, 5)
    proposals.propose(partition, SMALLER)
    partition.update_follower_fetch_state(2, 0, 0, 0, 6)  # Restarted meanwhile: it may have lost its log.
    [wanted] = sent(proposals).topics[0].partitions
    assert [(one.broker_id, one.broker_epoch) for one in wanted.new_isr_with_epochs] == [(1, 9), (2, 5)]


def test_one_alter_partition_request_is_in_flight_at_a_time(
    proposals: AlterPartitionManager, partitions: list[Partition]
) -> None:
    first, second = partitions
    proposals.propose(first, SMALLER)
    sent(proposals)
    proposals.propose(second, SMALLER)
    assert (proposals.request(9, 0), proposals.due_ms) == (None, None)
    proposals.handle_response(answer(first, [1, 2]), 0)
    assert proposals.due_ms == 0
    assert [topic.topic_id for topic in sent(proposals).topics] == [second.topic_id]


def test_maximal_isr_applies_until_response(proposals: AlterPartitionManager, partition: Partition) -> None:
    proposals.propose(partition, SMALLER)
    sent(proposals)
    assert (partition.isr, partition.maximal_isr) == (frozenset({1, 2, 3}), frozenset({1, 2, 3}))
    assert proposals.handle_response(answer(partition, [1, 2]), 0) == [partition]
    assert (partition.isr, partition.maximal_isr, partition.partition_epoch) == (
        frozenset({1, 2}),
        frozenset({1, 2}),
        1,
    )


def test_response_older_than_metadata_is_ignored(
    proposals: AlterPartitionManager, partition: Partition, node: Node
) -> None:
    proposals.propose(partition, SMALLER)
    sent(proposals)
    node.shrink("t", [1, 2])
    node.shrink("t", [1])
    proposals.handle_response(answer(partition, [1, 2]), 0)
    assert (partition.isr, partition.partition_epoch) == (frozenset({1}), 2)


def test_metadata_older_than_response_is_ignored(
    proposals: AlterPartitionManager, partition: Partition, node: Node
) -> None:
    before = node.image.partition("t", 0)
    assert before is not None
    proposals.propose(partition, SMALLER)
    sent(proposals)
    proposals.handle_response(answer(partition, [1, 2]), 0)
    partition.lead(before, 0)
    assert (partition.isr, partition.partition_epoch) == (frozenset({1, 2}), 1)


def test_newer_metadata_drops_proposal(proposals: AlterPartitionManager, partition: Partition, node: Node) -> None:
    proposals.propose(partition, SMALLER)
    node.shrink("t", [1, 3])
    assert partition.proposed_isr is None
    assert proposals.request(9, 0) is None


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER, None])
def test_proposal_with_unknown_outcome_is_retried_with_growing_backoff(
    proposals: AlterPartitionManager, partition: Partition, code: ErrorCode | None
) -> None:
    proposals.propose(partition, SMALLER)
    now_ms, pauses = 0, []
    for _ in range(7):
        sent(proposals, now_ms)
        proposals.handle_response(None if code is None else answer(partition, [], code=code), now_ms)
        assert partition.proposed_isr == SMALLER
        due_ms = proposals.due_ms
        assert due_ms is not None
        assert proposals.request(9, due_ms - 1) is None
        pauses.append(due_ms - now_ms)
        now_ms = due_ms
    assert (pauses[0], pauses[-1]) == (FIRST_BACKOFF_MS, MAX_BACKOFF_MS)


def test_request_with_top_level_error_is_retried(proposals: AlterPartitionManager, partition: Partition) -> None:
    proposals.propose(partition, SMALLER)
    sent(proposals)
    proposals.handle_response(AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, topics=[]), 0)
    assert proposals.due_ms == FIRST_BACKOFF_MS


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NEW_LEADER_ELECTED]
)
def test_stale_proposal_keeps_maximal_isr_until_metadata_arrives(
    proposals: AlterPartitionManager, partition: Partition, node: Node, code: ErrorCode
) -> None:
    node.shrink("t", [1])
    proposals.propose(partition, SMALLER)
    sent(proposals)
    proposals.handle_response(answer(partition, [], code=code), 0)
    assert (partition.maximal_isr, proposals.due_ms) == (frozenset({1, 2}), None)
    node.shrink("t", [1, 2, 3])
    assert partition.maximal_isr == {1, 2, 3}


def test_ineligible_replica_is_not_proposed_during_backoff(
    proposals: AlterPartitionManager, partition: Partition, node: Node
) -> None:
    node.shrink("t", [1])
    proposals.propose(partition, SMALLER)
    sent(proposals)
    proposals.handle_response(answer(partition, [], code=ErrorCode.INELIGIBLE_REPLICA), 0)
    assert partition.maximal_isr == {1}
    assert proposals.may_expand_from_ms(partition) == MAX_BACKOFF_MS


def test_refusals_are_purged_by_next_response_after_backoff(
    proposals: AlterPartitionManager, partitions: list[Partition]
) -> None:
    refused, other = partitions
    for at_ms, partition, code in (
        (0, refused, ErrorCode.INELIGIBLE_REPLICA),
        (MAX_BACKOFF_MS - 1, other, ErrorCode.NONE),
        (MAX_BACKOFF_MS, other, ErrorCode.NONE),
    ):
        assert (refused in proposals._refused) == bool(at_ms)
        proposals.propose(partition, SMALLER)
        sent(proposals, at_ms)
        proposals.handle_response(answer(partition, [1, 2], code=code), at_ms)
    assert refused not in proposals._refused


def test_response_with_unchanged_isr_ends_proposal(proposals: AlterPartitionManager, partition: Partition) -> None:
    proposals.propose(partition, frozenset({1, 2, 3}))
    sent(proposals)
    proposals.handle_response(answer(partition, [1, 2, 3], epoch=0), 0)
    assert (partition.proposed_isr, proposals.due_ms) == (None, None)


def test_isr_changes_are_counted_once_committed(
    proposals: AlterPartitionManager, partition: Partition, node: Node
) -> None:
    def change(isr: frozenset[int], code: int = ErrorCode.NONE) -> tuple[int, int, int]:
        proposals.propose(partition, isr)
        sent(proposals)
        proposals.handle_response(answer(partition, sorted(isr), code=code, epoch=partition.partition_epoch + 1), 0)
        return proposals.shrinks, proposals.expands, proposals.failures

    assert change(SMALLER) == (1, 0, 0)
    assert change(frozenset({1, 2, 3})) == (1, 1, 0)
    assert change(SMALLER, ErrorCode.INELIGIBLE_REPLICA) == (1, 1, 1)
