"""Start, end and divergence of Raft logs, built as lists of epochs with one record each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.raft.log import RaftEpochEnd, RaftLog, SnapshotId
from protocol.errors import InvariantError
from storage.log.leader_epochs import EpochEntry


def log_of(*epochs: int, high_watermark: int = 0) -> RaftLog:
    log = RaftLog(0, 0, high_watermark=high_watermark)
    for offset, epoch in enumerate(epochs):
        log.append(epoch, offset + 1)
    return log


def test_empty_log_starts_and_ends_at_0_in_epoch_0() -> None:
    log = RaftLog(0, 0)
    assert (log.start_offset, log.end) == (0, RaftEpochEnd(0, 0))


def test_stored_and_appended_records_give_the_same_log() -> None:
    stored = RaftLog(5, 4, epochs=[EpochEntry(1, 0), EpochEntry(2, 2), EpochEntry(4, 3)])
    for epoch in range(6):
        assert stored.end_of(epoch) == log_of(1, 1, 2, 4, 4).end_of(epoch)


def test_an_epoch_ends_where_the_next_begins() -> None:
    log = log_of(1, 1, 3, 3, 3)
    assert [log.end_of(epoch) for epoch in (1, 2, 3, 4)] == [(1, 2), (1, 2), (3, 5), (3, 5)]


def test_appended_records_start_at_the_log_end_with_a_non_decreasing_epoch() -> None:
    log = log_of(1, 3)
    with pytest.raises(InvariantError):
        log.append(2, 3)
    with pytest.raises(InvariantError):
        log.append(3, 2)


def test_prefix_of_a_log_does_not_diverge() -> None:
    log = log_of(1, 1, 3)
    assert [log.compare(offset, epoch) for offset, epoch in ((0, 0), (1, 1), (2, 1), (3, 3))] == [None] * 4


def test_diverging_log_gets_the_end_of_its_epoch() -> None:
    log = log_of(1, 1, 3)
    assert log.compare(3, 1) == RaftEpochEnd(1, 2)
    assert log.compare(4, 2) == RaftEpochEnd(1, 2)
    assert log.compare(4, 3) == RaftEpochEnd(3, 3)
    assert log.compare(9, 7) == RaftEpochEnd(3, 3)


def test_committed_entries_are_not_truncated() -> None:
    log = log_of(1, 1, 3, high_watermark=2)
    log.truncate_to(2)
    with pytest.raises(InvariantError, match="committed"):
        log.truncate_to(1)


def test_truncation_removes_epochs_without_records() -> None:
    log = log_of(1, 1, 3)
    log.truncate_to(2)
    assert log.end == (1, 2)


def test_high_watermark_is_limited_to_the_log_end_and_never_decreases() -> None:
    log = log_of(1, 1)
    assert log.commit(1)
    assert log.commit(9)
    assert not log.commit(1)
    assert log.high_watermark == 2


def test_log_after_a_snapshot_uses_the_snapshots_epoch() -> None:
    log = log_of(1, 1)
    log.reset_to_snapshot(SnapshotId(7, 4))
    assert (log.start_offset, log.high_watermark, log.end) == (7, 7, (4, 7))
    log.append(5, 8)
    assert log.compare(7, 4) is None
    assert log.compare(8, 4) == RaftEpochEnd(4, 7)


def test_fetch_below_the_log_start_needs_a_snapshot() -> None:
    log = RaftLog(9, 5, epochs=[EpochEntry(5, 8)], oldest_snapshot=SnapshotId(7, 4), newest_snapshot=SnapshotId(7, 4))
    assert log.compare(6, 4) == SnapshotId(7, 4)
    assert log.compare(8, 3) == SnapshotId(7, 4)
    assert log.compare(7, 4) is None


def test_empty_replica_gets_a_snapshot_instead_of_the_log() -> None:
    log = log_of(1, 1, 1)
    log.snapshot_taken(SnapshotId(2, 1), 0)
    assert log.compare(0, 0) == SnapshotId(2, 1)
    assert log.compare(1, 1) is None


def test_log_start_advances_and_later_epochs_are_kept() -> None:
    log = log_of(1, 1, 2, 2, 3)
    log.snapshot_taken(SnapshotId(3, 2), 3)
    assert log.start_offset == 3
    assert log.end_of(2) == (2, 4)
    assert log.end_of(1) is None
    assert log.compare(3, 2) is None


def test_log_is_not_reset_to_a_snapshot_below_the_high_watermark() -> None:
    with pytest.raises(InvariantError):
        log_of(1, 1, high_watermark=2).reset_to_snapshot(SnapshotId(1, 1))


# Logs of leaders of epochs 1, 2, ...: each starts with a prefix of an earlier leader's log and appends records.
HISTORIES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8), st.integers(1, 4)), min_size=1, max_size=6)


@given(HISTORIES, st.data())
def test_diverging_logs_converge_by_comparing_epoch_ends(
    history: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    logs: list[list[int]] = [[]]
    for epoch, (which, kept, added) in enumerate(history, 1):
        logs.append(logs[which % len(logs)][:kept] + [epoch] * added)
    theirs, ours = data.draw(st.sampled_from(logs)), data.draw(st.sampled_from(logs))
    theirs = theirs[: data.draw(st.integers(0, len(theirs)))]
    leader, follower = log_of(*theirs), log_of(*ours)
    while (parts_at := leader.compare(follower.end_offset, follower.end_epoch)) is not None:
        assert isinstance(parts_at, RaftEpochEnd)
        before = follower.end_offset
        assert follower.truncate(parts_at) < before
    kept = follower.end_offset
    in_common = next((at for at, (a, b) in enumerate(zip(theirs, ours, strict=False)) if a != b), None)
    assert kept == (min(len(theirs), len(ours)) if in_common is None else in_common)
