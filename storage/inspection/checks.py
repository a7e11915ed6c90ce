"""Checks of the batches of a log against each other, the leader epochs and the producer snapshots.

Each check gets every valid batch of a log in order, and yields findings. The CRC of a batch does not cover its base
offset and leader epoch, so they are compared with those of the batches before and after.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocol.record_batch import BatchHeader, EndTxnMarker
from storage.inspection.findings import Finding
from storage.inspection.layouts import BATCH, PRODUCER, SNAPSHOT
from storage.log.leader_epochs import EpochEntry, LeaderEpochs
from storage.log.producer_state import CompletedTxn, ProducerStateEntry, ProducerStateManager

_EPOCH_AT = BATCH.field("partition_leader_epoch").offset


class Located(NamedTuple):
    """A valid batch with its file and its position there in bytes."""

    path: str
    position: int
    header: BatchHeader


def is_filler(header: BatchHeader) -> bool:
    """Return whether a batch fills offsets that a repair removed; their producers and epoch are unknown."""
    return not header.record_count and header.producer_id < 0


class OffsetCheck:
    """Checks that offsets rise from batch to batch and, unless the log is compacted, none are missing."""

    def __init__(self, start_offset: int, *, compacted: bool) -> None:
        self._compacted = compacted
        self._beside = ("", 0)
        self.next_offset: int | None = start_offset
        """The expected base offset of the next batch; the caller sets it to None after bytes that are not a batch."""

    def batch(self, batch: Located, following: BatchHeader | None) -> Iterator[Finding]:
        """Check a batch; `following` is the header of the next one, in the same segment or the next."""
        header, expected = batch.header, self.next_offset
        base, count = header.base_offset, header.last_offset_delta + 1
        self.next_offset = header.next_offset
        if expected is None or base == expected:
            return
        if following is not None and following.base_offset == expected + count:
            self.next_offset = following.base_offset  # with the expected offset, this batch would end at the next one
            yield self._finding(batch, f"{base} instead of {expected}, the end of the previous batch")
        elif base < expected:
            self.next_offset = max(expected, header.next_offset)
            is_reported, self._beside = self._beside == (batch.path, base), (batch.path, header.next_offset)
            if is_reported:
                return  # one finding only for a segment that exists twice
            yield self._finding(batch, f"{base} is not above {expected - 1}, the last offset of the previous batch")
        elif not self._compacted:
            yield self._finding(batch, f"{base}, but the previous batch ends with {expected - 1}: records are missing")

    def _finding(self, batch: Located, problem: str) -> Finding:
        return Finding(batch.path, batch.position, "base_offset", problem)


class EpochCheck:
    """Checks that leader epochs never decrease and begin at the offsets in `leader-epoch-checkpoint`."""

    def __init__(
        self, entries: Sequence[EpochEntry] | None, path: str, log_start_offset: int, *, complete: bool = True
    ) -> None:
        """Set the `entries` of the checkpoint at `path`; None if it cannot be read.

        Unless `complete`, they may lack the newest epochs: a broker runs, or its last stop was unclean.
        """
        self._newest = entries[-1].epoch if entries else -1
        self._is_behind = not complete
        self._start = log_start_offset
        self._entries = entries or ()
        self._epochs = None if entries is None else LeaderEpochs(entries)
        self._path = path
        self._before: int | None = None
        self._reported: set[int] = set()

    def batch(self, batch: Located, following: BatchHeader | None) -> Iterator[Finding]:
        """Check a batch, as `OffsetCheck.batch` does."""
        if is_filler(batch.header):
            return
        epoch, before = batch.header.partition_leader_epoch, self._before
        after = None if following is None else following.partition_leader_epoch
        base_offset = max(batch.header.base_offset, self._start)  # the checkpoint has no entries below the log start
        known = self._epochs.epoch_for_offset(base_offset) if self._epochs else None
        if before is not None and (epoch < before or (before == after != epoch and known != epoch)):
            yield self._of_batch(batch, f"{epoch} between batches of epoch {before}")
            return
        self._before = epoch
        is_reported = self._epochs is None or epoch < 0 or base_offset > batch.header.last_offset
        if is_reported or known == epoch or epoch in self._reported:
            return
        self._reported.add(epoch)
        lines = {entry.epoch: line for line, entry in enumerate(self._entries, 3)}
        if epoch not in lines:
            if self._is_behind and epoch > self._newest:
                return
            if epoch in (before, after):
                problem = f"epoch {epoch} is missing; batches from offset {base_offset} on have it"
                yield Finding(self._path, None, "epoch", problem)
            else:
                self._before = before
                yield self._of_batch(batch, f"{epoch} is not in leader-epoch-checkpoint")
        else:
            wrong = epoch if known is None or known < epoch else known
            problem = f"of epoch {wrong}, but the batch at offset {base_offset} has epoch {epoch}"
            yield Finding(self._path, lines[wrong], "start_offset", problem)

    def _of_batch(self, batch: Located, problem: str) -> Finding:
        return Finding(batch.path, batch.position + _EPOCH_AT, "partition_leader_epoch", problem)


class TransactionCheck:
    """Replays the batches to a producer state: finds aborted transactions, and checks producer snapshots."""

    def __init__(self, producers: ProducerStateManager | None) -> None:
        """Begin with the state before the first batch; None if it is unknown."""
        self._state = producers
        self.aborted: list[CompletedTxn] = []
        """The transactions aborted since the caller last cleared the list."""

    @property
    def is_complete(self) -> bool:
        """Whether the state is known; not after bytes that are not a batch."""
        return self._state is not None

    def forget(self) -> None:
        """Mark the state as unknown from here on."""
        self._state = None

    def batch(self, header: BatchHeader, marker: EndTxnMarker | None) -> None:
        """Apply the next batch."""
        if is_filler(header):
            self.forget()
        if self._state is not None:
            ended = self._state.update(header, marker)
            if ended is not None and ended.aborted:
                self.aborted.append(ended)

    def snapshot(self, path: str, found: ProducerStateManager) -> Iterator[Finding]:
        """Compare a snapshot taken at this offset with the state. Producers missing in it may have expired."""
        if self._state is None:
            return
        for number, (producer_id, entry) in enumerate(found.producers.items()):
            known = self._state.producers.get(producer_id)
            at = SNAPSHOT.size + number * PRODUCER.size
            if known is None:
                yield Finding(path, at, "producer_id", f"{producer_id} has no earlier batch")
                continue
            for name, is_, should in _in_snapshot(entry, known):
                if is_ != should:
                    problem = f"{is_} instead of {should}, the value in the log"
                    yield Finding(path, at + PRODUCER.field(name).offset, name, problem)


def _in_snapshot(entry: ProducerStateEntry, known: ProducerStateEntry) -> Iterator[tuple[str, int, int]]:
    """Yield (field, value in the snapshot, value in the log)."""
    yield "producer_epoch", entry.epoch, known.epoch
    yield "coordinator_epoch", entry.coordinator_epoch, known.coordinator_epoch
    yield "txn_first_offset", entry.txn_first_offset, known.txn_first_offset
    if entry.batches and known.batches:
        for name in ("last_sequence", "last_offset", "offset_delta"):
            yield name, getattr(entry.batches[-1], name), getattr(known.batches[-1], name)
