"""Raft's view of the log: its start and end, the start offset of each epoch, the snapshots and the high watermark.

The log starts at the end of a snapshot; before its first record it has that snapshot's epoch. Two logs that agree on
the epoch of an offset agree on everything below it (log matching, Raft section 5.3). Where a follower's log diverges
from its leader's is found epoch by epoch (KIP-595). Committed records are never truncated.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import InvariantError

if TYPE_CHECKING:
    from protocol.schema import Message
    from storage.log.leader_epochs import EpochEntry


class Entry(NamedTuple):
    """Records that are appended, committed and applied together: one batch of the metadata log."""

    base_offset: int
    epoch: int
    records: tuple[Message, ...]

    @property
    def next_offset(self) -> int:
        """Return the offset after the last record."""
        return self.base_offset + len(self.records)


class SnapshotId(NamedTuple):
    """The end offset of a snapshot, and the epoch of the record before it (Kafka: `OffsetAndEpoch`)."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """Return the name of the snapshot's file."""
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


class RaftEpochEnd(NamedTuple):
    """An epoch and the offset after its last record."""

    epoch: int
    end_offset: int


class RaftLog:
    """The offsets and epochs of one node's log, without its records: stored, or in a Ready that is to be performed."""

    def __init__(
        self,
        end_offset: int,
        end_epoch: int,
        *,
        high_watermark: int = 0,
        epochs: Sequence[EpochEntry] = (),
        oldest_snapshot: SnapshotId | None = None,
        newest_snapshot: SnapshotId | None = None,
    ) -> None:
        """Start from what is stored: a log that ends at `end_offset` with a record of `end_epoch`.

        Entries below `high_watermark` are known to be committed. `epochs` are oldest first, as far as they are known;
        the log starts at the end of `oldest_snapshot`, at 0 without one.
        """
        self.end_offset = end_offset
        self.high_watermark = high_watermark
        self.newest_snapshot = newest_snapshot
        base_epoch, start_offset = (oldest_snapshot.epoch, oldest_snapshot.end_offset) if oldest_snapshot else (0, 0)
        # The first epoch is that of the record before the log's start; each ends where the next starts.
        self._epochs = [base_epoch]
        self._starts = [start_offset]
        for epoch, start in (*epochs, (end_epoch, start_offset if not epochs else end_offset)):
            self._begin_epoch(epoch, max(start, start_offset))

    def __repr__(self) -> str:
        epochs = " ".join(f"{epoch}@{start}" for epoch, start in zip(self._epochs, self._starts, strict=True))
        return f"RaftLog({epochs}, high watermark {self.high_watermark}, end {self.end_offset})"

    @property
    def start_offset(self) -> int:
        """Return the offset of the first record."""
        return self._starts[0]

    @property
    def end_epoch(self) -> int:
        """Return the epoch of the last record; of the snapshot before it if the log is empty."""
        return self._epochs[-1]

    @property
    def end(self) -> RaftEpochEnd:
        """Return the last epoch and the end offset."""
        return RaftEpochEnd(self.end_epoch, self.end_offset)

    def may_be_led_by(self, end: RaftEpochEnd) -> bool:
        """Return whether a log with that end is at least as up to date as this one (Raft section 5.4.1)."""
        return end >= self.end

    def end_of(self, epoch: int) -> RaftEpochEnd | None:
        """Return the largest epoch up to `epoch` and its end offset; None if it lies before the start of the log."""
        at = bisect_right(self._epochs, epoch)
        if not at:
            return None
        return RaftEpochEnd(self._epochs[at - 1], self._starts[at] if at < len(self._starts) else self.end_offset)

    def compare(self, end_offset: int, end_epoch: int) -> RaftEpochEnd | SnapshotId | None:
        """Return None if a log with that end is a prefix of this one; else the diverging epoch or the snapshot to send.

        From a diverging epoch, the follower continues the search for the common prefix; from a snapshot, it restarts.
        """
        snapshot = self.newest_snapshot
        if snapshot is not None and (end_offset < self.start_offset or (end_offset == 0 < snapshot.end_offset)):
            return snapshot
        if end_offset == 0 == self.start_offset:
            return None
        end = self.end_of(end_epoch)
        if end is None:
            return snapshot or RaftEpochEnd(self._epochs[0], self._starts[0])
        return None if end.epoch == end_epoch and end_offset <= end.end_offset else end

    def append(self, epoch: int, next_offset: int) -> None:
        """Extend the log to `next_offset` with records of `epoch`."""
        if epoch < self.end_epoch or next_offset <= self.end_offset:
            raise InvariantError(f"records of epoch {epoch} up to {next_offset} cannot follow {self!r}")
        self._begin_epoch(epoch, self.end_offset)
        self.end_offset = next_offset

    def truncate(self, leader_end: RaftEpochEnd) -> int:
        """Truncate to the common prefix with a leader's log whose epoch ends at `leader_end`; return the new end.

        InvariantError if that would remove committed records.
        """
        own = self.end_of(leader_end.epoch)
        if own is None:
            end_offset = self.start_offset
        elif own.epoch == leader_end.epoch:
            end_offset = min(own.end_offset, leader_end.end_offset)
        else:
            end_offset = own.end_offset
        self.truncate_to(end_offset)
        return end_offset

    def truncate_to(self, end_offset: int) -> None:
        """Truncate to `end_offset`; InvariantError if that would remove committed records."""
        if end_offset < self.high_watermark:
            raise InvariantError(f"truncation to {end_offset} would remove committed records: {self!r}")
        kept = max(1, bisect_left(self._starts, end_offset, lo=1))
        del self._epochs[kept:], self._starts[kept:]
        self.end_offset = end_offset

    def commit(self, end_offset: int) -> bool:
        """Advance the high watermark to `end_offset`, at most to the end of the log; return whether it moved."""
        end_offset = min(end_offset, self.end_offset)
        if end_offset <= self.high_watermark:
            return False
        self.high_watermark = end_offset
        return True

    def reset_to_snapshot(self, snapshot: SnapshotId) -> None:
        """Replace the log by a snapshot and leave it empty; InvariantError if more than the snapshot is committed."""
        if snapshot.end_offset < self.high_watermark:
            raise InvariantError(f"the snapshot {snapshot.file_name} ends below the high watermark: {self!r}")
        self._epochs, self._starts = [snapshot.epoch], [snapshot.end_offset]
        self.end_offset = self.high_watermark = snapshot.end_offset
        self.newest_snapshot = snapshot

    def snapshot_taken(self, newest: SnapshotId, start_offset: int) -> None:
        """Record a snapshot of this log, and that the log now starts at `start_offset`."""
        self.newest_snapshot = newest
        before = max(0, bisect_left(self._starts, start_offset) - 1)
        del self._epochs[:before], self._starts[:before]
        self._starts[0] = start_offset

    def _begin_epoch(self, epoch: int, start_offset: int) -> None:
        if epoch > self._epochs[-1]:
            self._epochs.append(epoch)
            self._starts.append(start_offset)
