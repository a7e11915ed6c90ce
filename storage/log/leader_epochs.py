"""The leader epochs of a log, as (epoch, start offset) entries (Kafka: `LeaderEpochFileCache`).

Both columns strictly ascend. Followers use them to find where their log diverges from the leader's (KIP-101, KIP-279),
consumers to detect truncation. A truncation to the log end drops the epochs that start there, although it drops no
record (KAFKA-10706). The checkpoint's format is in `checkpoint.py`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from protocol.errors import InvariantError

NO_EPOCH = -1
NO_OFFSET = -1


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of its first record."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The largest known epoch that is at most the requested one, and the offset after its last record; -1: unknown."""

    epoch: int
    end_offset: int


_UNKNOWN = EpochEnd(NO_EPOCH, NO_OFFSET)


class LeaderEpochs:
    """The leader epochs of one log, oldest first."""

    __slots__ = ("_entries", "latest")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        self.latest: int | None = None
        """The newest epoch; read by every append."""
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` starts at `start_offset`.

        Conflicting entries, which an earlier leader may have left, are dropped.
        """
        if epoch < 0 or start_offset < 0:
            raise InvariantError(f"leader epoch {epoch} cannot start at offset {start_offset}")
        entries = self._entries
        if entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset:
            return
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self.latest = epoch

    def assign_newer(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` starts at `start_offset`, unless that epoch or a later one is known."""
        if epoch >= 0 and (self.latest is None or epoch > self.latest):
            self.assign(epoch, start_offset)

    def correct(self, epoch: int, start_offset: int, last_offset: int) -> None:
        """Record that recovery found a batch of `epoch`; entries that contradict it are dropped.

        A power cut may have restored an outdated file, in which an epoch starts inside the batch: at a log end from
        before the log was truncated further and copied from another leader.
        """
        if epoch >= 0 and not self.epoch_for_offset(start_offset) == epoch == self.epoch_for_offset(last_offset):
            self.truncate_from_end(start_offset)
            self.assign(epoch, start_offset)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Return the end of `epoch`: where the next known one starts, or the log end for the newest.

        An epoch older than all known ones ends where the first of them starts, since its records are deleted.
        """
        entries = self._entries
        if epoch == NO_EPOCH or not entries or epoch > entries[-1].epoch:
            return _UNKNOWN
        if epoch == entries[-1].epoch:
            return EpochEnd(epoch, log_end_offset)
        following = bisect_right(entries, epoch, key=_epoch)
        floor = entries[following - 1].epoch if following else epoch
        return EpochEnd(floor, entries[following].start_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch of the record at `offset`; None before the first known one."""
        following = bisect_right(self._entries, offset, key=_start_offset)
        return self._entries[following - 1].epoch if following else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that start at or after `end_offset`."""
        if end_offset >= 0:
            del self._entries[bisect_left(self._entries, end_offset, key=_start_offset) :]
            self.latest = self._entries[-1].epoch if self._entries else None

    def truncate_from_start(self, start_offset: int) -> None:
        """Start the epoch of `start_offset` there, and drop those before."""
        following = bisect_right(self._entries, start_offset, key=_start_offset)
        if following:
            self._entries[:following] = [EpochEntry(self._entries[following - 1].epoch, start_offset)]

    def clear(self) -> None:
        """Drop all epochs."""
        self._entries.clear()
        self.latest = None


def _epoch(entry: EpochEntry) -> int:
    return entry.epoch


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset
