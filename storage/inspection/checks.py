"""What the batches of a log say of each other, of the leader epochs and of the transactions.

Each check is told of every valid batch of a log, in order, and says what it finds. Base offset and leader epoch are
not under a batch's CRC, so they are compared with what stands before and behind it.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocol.record_batch import BatchHeader, EndTxnMarker
from storage.inspection.findings import Finding
from storage.inspection.layouts import BATCH, PRODUCER, SNAPSHOT
from storage.log.leader_epochs import EpochEntry, LeaderEpochs
from storage.log.producer_state import CompletedTxn, ProducerEntry, ProducerState

_EPOCH_AT = BATCH.field("partition_leader_epoch").offset


class Located(NamedTuple):
    """A valid batch, the file that it is in, and where."""

    path: str
    position: int
    header: BatchHeader


def is_bridge(header: BatchHeader) -> bool:
    """Tell whether a batch stands for offsets that a repair has taken out, of whatever producers and epoch."""
    return not header.record_count and header.producer_id < 0


class OffsetCheck:
    """Offsets rise from batch to batch, and without compaction no offset is missing."""

    def __init__(self, start_offset: int, *, compacted: bool) -> None:
        self._compacted = compacted
        self._beside = ("", 0)
        self.next_offset: int | None = start_offset
        """Where the next batch is to begin; to be set to None behind bytes that are no batch."""

    def batch(self, batch: Located, following: BatchHeader | None) -> Iterator[Finding]:
        """Look at a batch; `following` is the header of the one behind it, in whatever segment."""
        header, expected = batch.header, self.next_offset
        base, count = header.base_offset, header.last_offset_delta + 1
        self.next_offset = header.next_offset
        if expected is None or base == expected:
            return
        if following is not None and following.base_offset == expected + count:
            self.next_offset = following.base_offset  # which tells where this one belongs
            yield self._finding(batch, f"{base} instead of {expected}, where the one before ends")
        elif base < expected:
            self.next_offset = max(expected, header.next_offset)
            is_told, self._beside = self._beside == (batch.path, base), (batch.path, header.next_offset)
            if is_told:
                return  # all of a segment that is there twice
            yield self._finding(batch, f"{base} is not behind {expected - 1}, where the one before ends")
        elif not self._compacted:
            yield self._finding(batch, f"{base}, but the one before ends with {expected - 1}: records are missing")

    def _finding(self, batch: Located, problem: str) -> Finding:
        return Finding(batch.path, batch.position, "base_offset", problem)


class EpochCheck:
    """Leader epochs never go back, and begin where `leader-epoch-checkpoint` says."""

    def __init__(
        self, entries: Sequence[EpochEntry] | None, path: str, log_start_offset: int, *, complete: bool = True
    ) -> None:
        """Compare with `entries`, which are those of the file `path`; None if that cannot be read.

        While a broker runs, and if it did not stop in order, they need not be `complete`.
        """
        self._newest = entries[-1].epoch if entries else -1
        self._is_behind = not complete
        self._start = log_start_offset
        self._entries = entries or ()
        self._epochs = None if entries is None else LeaderEpochs(entries)
        self._path = path
        self._before: int | None = None
        self._told: set[int] = set()

    def batch(self, batch: Located, following: BatchHeader | None) -> Iterator[Finding]:
        """Look at a batch, as `OffsetCheck.batch`."""
        if is_bridge(batch.header):
            return
        epoch, before = batch.header.partition_leader_epoch, self._before
        after = None if following is None else following.partition_leader_epoch
        base_offset = max(batch.header.base_offset, self._start)  # before that, no epochs are kept
        known = self._epochs.epoch_for_offset(base_offset) if self._epochs else None
        if before is not None and (epoch < before or (before == after != epoch and known != epoch)):
            yield self._of_batch(batch, f"{epoch} amid batches of epoch {before}")
            return
        self._before = epoch
        is_told = self._epochs is None or epoch < 0 or base_offset > batch.header.last_offset
        if is_told or known == epoch or epoch in self._told:
            return
        self._told.add(epoch)
        lines = {entry.epoch: line for line, entry in enumerate(self._entries, 3)}
        if epoch not in lines:
            if self._is_behind and epoch > self._newest:
                return
            if epoch in (before, after):
                problem = f"epoch {epoch} is missing, of which there are batches from {base_offset} on"
                yield Finding(self._path, None, "epoch", problem)
            else:
                self._before = before
                yield self._of_batch(batch, f"{epoch}, of which leader-epoch-checkpoint knows nothing")
        else:
            wrong = epoch if known is None or known < epoch else known
            problem = f"of epoch {wrong}, but the batch at {base_offset} is of epoch {epoch}"
            yield Finding(self._path, lines[wrong], "start_offset", problem)

    def _of_batch(self, batch: Located, problem: str) -> Finding:
        return Finding(batch.path, batch.position + _EPOCH_AT, "partition_leader_epoch", problem)


class TransactionCheck:
    """The producers as the batches make them: transactions that were aborted, and what snapshots have to say."""

    def __init__(self, producers: ProducerState | None) -> None:
        """Begin with the producers before the first batch; None if they are not known."""
        self._state = producers
        self.aborted: list[CompletedTxn] = []
        """The aborted transactions since `aborted` was cleared."""

    @property
    def is_complete(self) -> bool:
        """Whether everything is known; not behind bytes that are no batch."""
        return self._state is not None

    def forget(self) -> None:
        """Know nothing any more, until the end."""
        self._state = None

    def batch(self, header: BatchHeader, marker: EndTxnMarker | None) -> None:
        """Take in the next batch."""
        if is_bridge(header):
            self.forget()
        if self._state is not None:
            ended = self._state.update(header, marker)
            if ended is not None and ended.aborted:
                self.aborted.append(ended)

    def snapshot(self, path: str, found: ProducerState) -> Iterator[Finding]:
        """Compare a snapshot that was taken here. Producers that are missing in it may have expired."""
        if self._state is None:
            return
        for number, (producer_id, entry) in enumerate(found.producers.items()):
            known = self._state.producers.get(producer_id)
            at = SNAPSHOT.size + number * PRODUCER.size
            if known is None:
                yield Finding(path, at, "producer_id", f"{producer_id} has written nothing before")
                continue
            for name, is_, should in _in_snapshot(entry, known):
                if is_ != should:
                    problem = f"{is_} instead of {should}, by the log"
                    yield Finding(path, at + PRODUCER.field(name).offset, name, problem)


def _in_snapshot(entry: ProducerEntry, known: ProducerEntry) -> Iterator[tuple[str, int, int]]:
    """Yield what a snapshot says and what the log says, field by field."""
    yield "producer_epoch", entry.epoch, known.epoch
    yield "coordinator_epoch", entry.coordinator_epoch, known.coordinator_epoch
    yield "txn_first_offset", entry.txn_first_offset, known.txn_first_offset
    if entry.batches and known.batches:
        for name in ("last_sequence", "last_offset", "offset_delta"):
            yield name, getattr(entry.batches[-1], name), getattr(known.batches[-1], name)
