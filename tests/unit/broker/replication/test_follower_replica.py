"""Broker 1 follows `t`; its log has records 0 to 3 of leader epoch 0, 4 to 6 of epoch 2, 7 of epoch 4."""

from __future__ import annotations

import pytest

from broker.replication.follower_replica import FollowerReplica
from broker.replication.partition import Partition
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchResponse
from storage.log.leader_epochs import EpochEntry
from tests.unit.broker.node import Node
from tests.unit.broker.replication.test_fetcher_state import batch

Fetched = FetchResponse.Topic.Partition


@pytest.fixture
def copy(node: Node) -> FollowerReplica:
    node.create("t", replicas=(1, 2), leader=2)
    for _ in range(4):
        node.elect("t", 2)
    made = node.replicas.follower_replica(node.partition("t"))
    assert made.append(b"".join(batch(offset, epoch=epoch) for offset, epoch in enumerate((0, 0, 0, 0, 2, 2, 2, 4))))
    return made


def partition(node: Node) -> Partition:
    return node.partition("t")


def test_replica_has_offsets_and_epochs_for_fetch(copy: FollowerReplica) -> None:
    assert (copy.start_offset, copy.end_offset, copy.last_epoch, copy.leader, copy.leader_epoch) == (0, 8, 4, 2, 4)


def test_empty_log_has_no_last_epoch(node: Node) -> None:
    node.create("empty", replicas=(1, 2), leader=2)
    assert node.replicas.follower_replica(node.partition("empty")).last_epoch == -1


def test_partial_batch_is_not_appended(copy: FollowerReplica) -> None:
    assert not copy.append(batch(8, epoch=4)[:-1])
    assert not copy.append(b"")
    assert copy.end_offset == 8


def test_high_watermark_follows_leaders_up_to_log_end(copy: FollowerReplica, node: Node) -> None:
    for reported, known in ((3, 3), (2, 3), (100, 8)):
        assert not copy.update_offsets(reported, 0)
        assert partition(node).high_watermark == known


@pytest.mark.parametrize(
    ("code", "diverging", "known"),
    [
        pytest.param(ErrorCode.NONE, -1, 3, id="this log is the leader's as far as it reaches"),
        pytest.param(ErrorCode.NONE, 2, 0, id="this log parts from the leader's"),
        pytest.param(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, 0, id="an error"),
    ],
)
def test_late_response_only_advances_high_watermark(
    copy: FollowerReplica, node: Node, code: ErrorCode, diverging: int, known: int
) -> None:
    late = Fetched(
        partition_index=0,
        error_code=code,
        high_watermark=3,
        log_start_offset=2,
        diverging_epoch=Fetched.DivergingEpoch(end_offset=diverging),
        aborted_transactions=None,
        records=batch(8, epoch=4),
    )
    copy.update_high_watermark(late)
    assert (copy.start_offset, copy.end_offset, partition(node).high_watermark) == (0, 8, known)


def test_log_start_follows_leaders(copy: FollowerReplica, node: Node) -> None:
    assert copy.update_offsets(5, 4)
    assert not copy.update_offsets(5, 4)
    assert (copy.start_offset, partition(node).log_start_seen) == (4, 4)


@pytest.mark.parametrize(
    ("epoch", "end_offset", "end"),
    [
        pytest.param(2, 6, 6, id="the leader has less of that epoch"),
        pytest.param(2, 9, 7, id="the leader has more of that epoch"),
        pytest.param(3, 9, 7, id="an epoch that is unknown here: what came after it is in doubt"),
        pytest.param(0, 3, 3, id="two epochs are the leader's no more"),
    ],
)
def test_records_missing_at_leader_are_truncated(copy: FollowerReplica, epoch: int, end_offset: int, end: int) -> None:
    assert copy.truncate_diverged(epoch, end_offset) == end == copy.end_offset


def test_rule_1_log_that_diverges_before_leaders_log_start_is_emptied(copy: FollowerReplica, node: Node) -> None:
    """The leader has deleted everything up to 6, with the epochs: local records before 6 may differ from its own."""
    node.shrink("t", [2])
    assert copy.truncate_diverged(2, 6, 6) == 6
    assert (copy.start_offset, copy.end_offset, copy.last_epoch, partition(node).high_watermark) == (6, 6, -1, 6)
    assert partition(node).log.producers.end_offset == 6


def test_isr_member_keeps_records_below_leaders_log_start(copy: FollowerReplica, node: Node) -> None:
    assert copy.truncate_diverged(2, 6, 6) == 6
    assert (copy.start_offset, copy.end_offset, copy.last_epoch) == (0, 6, 2)


def test_log_with_leaders_log_start_is_truncated(copy: FollowerReplica) -> None:
    copy.update_offsets(8, 5)
    assert copy.truncate_diverged(2, 6, 5) == 6
    assert (copy.start_offset, copy.end_offset, copy.last_epoch) == (5, 6, 2)


def test_log_ending_inside_leaders_first_batch_restarts_with_that_batch(copy: FollowerReplica) -> None:
    assert copy.append(batch(7, epoch=4, records=3), 8)
    copy.update_offsets(10, 8)
    assert (copy.start_offset, copy.end_offset) == (8, 10)


def test_log_ending_at_leaders_log_start_keeps_its_records_and_producers(copy: FollowerReplica) -> None:
    assert copy.append(batch(8, epoch=4, records=3), 8)
    assert (copy.start_offset, copy.end_offset) == (0, 11)


def test_rule_2_truncation_removes_epoch_without_records(copy: FollowerReplica, node: Node) -> None:
    epochs = partition(node).log.leader_epochs
    epochs.assign(6, 8)
    assert copy.truncate_diverged(4, 8) == 8
    assert epochs.entries == (EpochEntry(0, 0), EpochEntry(2, 4), EpochEntry(4, 7))
    assert copy.last_epoch == 4


def test_restarted_log_is_empty_at_new_offset(copy: FollowerReplica, node: Node) -> None:
    copy.truncate_fully_and_start_at(20)
    assert (copy.start_offset, copy.end_offset, copy.last_epoch, partition(node).high_watermark) == (20, 20, -1, 20)


def test_restarted_log_accepts_batch_that_spans_leaders_log_start(copy: FollowerReplica) -> None:
    copy.truncate_fully_and_start_at(20)
    assert copy.append(batch(18, epoch=4, records=4))
    copy.update_offsets(22, 20)
    assert (copy.start_offset, copy.end_offset) == (20, 22)


def test_overlapping_batch_is_refused_by_log_with_records(copy: FollowerReplica) -> None:
    with pytest.raises(KafkaError):
        copy.append(batch(6, epoch=4, records=4))
    assert (copy.start_offset, copy.end_offset) == (0, 8)


def test_high_watermark_change_wakes_readers_of_follower(copy: FollowerReplica, node: Node) -> None:
    reported = []

    class Reader:
        def woken(self, key: object, size_bytes: int) -> None:
            reported.append(key)

        def act(self) -> None:
            pass

    node.purgatory.watch(partition(node), Reader())
    copy.update_offsets(3, 0)
    node.pass_time(0.1)
    copy.update_offsets(3, 0)
    node.pass_time(0.1)
    copy.truncate_diverged(0, 3)
    node.pass_time(0.1)
    assert reported == [partition(node)] * 2


def test_replicated_bytes_are_counted(copy: FollowerReplica, node: Node) -> None:
    topic_metrics = partition(node).topic_metrics
    before = topic_metrics.replication_bytes_in
    records = batch(8, epoch=4)
    copy.append(records)
    assert (topic_metrics.replication_bytes_in - before, topic_metrics.bytes_in) == (len(records), 0)
