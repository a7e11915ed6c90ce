"""The stored state of one simulated node, and its unsynced writes."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from controller.batches import encode_entry
from controller.raft.log import Entry, RaftLog, SnapshotId
from controller.raft.messages import ElectionState, LogRead, SnapshotPart, SnapshotRead
from protocol.errors import ErrorCode
from protocol.record_batch import iter_batches
from storage.log.leader_epochs import EpochEntry


class Batch(NamedTuple):
    """A batch in the log."""

    base_offset: int
    next_offset: int
    epoch: int
    data: bytes


class RaftDisk:
    """A log, snapshots and the quorum state."""

    def __init__(self) -> None:
        self.quorum_state: ElectionState | None = None
        self.batches: list[Batch] = []
        self.synced = 0
        self.snapshots: dict[SnapshotId, bytes] = {}
        self.oldest: SnapshotId | None = None
        self._part = bytearray()

    @property
    def snapshot(self) -> SnapshotId | None:
        return max(self.snapshots, default=None)

    @property
    def start_offset(self) -> int:
        return self.oldest.end_offset if self.oldest else 0

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start_offset

    @property
    def end_epoch(self) -> int:
        return self.batches[-1].epoch if self.batches else (self.oldest.epoch if self.oldest else 0)

    def raft_log(self) -> RaftLog:
        """Return Raft's view of the log at a start."""
        return RaftLog(
            self.end_offset,
            self.end_epoch,
            high_watermark=self.snapshot.end_offset if self.snapshot else 0,
            epochs=self.epochs(),
            oldest_snapshot=self.oldest,
            newest_snapshot=self.snapshot,
        )

    def epochs(self) -> list[EpochEntry]:
        """Return the first offset of each epoch, as in a leader-epoch checkpoint."""
        starts: dict[int, int] = {}
        for batch in self.batches:
            starts.setdefault(batch.epoch, batch.base_offset)
        return [EpochEntry(epoch, start) for epoch, start in starts.items()]

    def append_entry(self, entry: Entry, now_ms: int) -> None:
        self.append_batches(entry.base_offset, bytes(encode_entry(entry, now_ms)))

    def append_batches(self, base_offset: int, data: bytes) -> None:
        assert base_offset == self.end_offset, f"append at {base_offset} to a log that ends at {self.end_offset}"
        for at, header in iter_batches(data):
            whole = data[at : at + header.size_bytes]
            self.batches.append(Batch(header.base_offset, header.next_offset, header.partition_leader_epoch, whole))

    def sync(self) -> None:
        self.synced = len(self.batches)

    def truncate(self, end_offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.next_offset <= end_offset]
        self.synced = min(self.synced, len(self.batches))
        assert self.end_offset == end_offset, f"cut at {end_offset}, amid a batch"

    def crash(self, random: Random) -> None:
        """Lose some or all unsynced data."""
        kept = random.randint(self.synced, len(self.batches))
        del self.batches[kept:]
        self.synced = kept
        self._part.clear()

    def take_snapshot(self, snapshot: SnapshotId, data: bytes, *, trim: bool) -> None:
        """Store a snapshot; with `trim`, drop the log and the snapshots before it."""
        self.snapshots[snapshot] = data
        if trim:
            dropped = sum(batch.next_offset <= snapshot.end_offset for batch in self.batches)
            del self.batches[:dropped]
            self.synced -= dropped
            self.snapshots = {snapshot: data}
            self.oldest = snapshot

    def write_part(self, part: SnapshotPart) -> None:
        if part.position == 0:
            self._part.clear()
        assert part.position == len(self._part), "a part of a snapshot is missing"
        self._part += part.data

    def reset_to_snapshot(self, snapshot: SnapshotId) -> None:
        self.batches, self.synced = [], 0
        self.snapshots = {snapshot: bytes(self._part)}
        self.oldest = snapshot

    def fill_in(self, response: Any, read: LogRead | SnapshotRead) -> None:
        if isinstance(read, LogRead):
            partition = response.responses[0].partitions[0]
            partition.records = self._read(read.offset, read.max_bytes)
            return
        partition = response.topics[0].partitions[0]
        data = self.snapshots.get(read.snapshot)
        if data is None:
            partition.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        elif read.position > len(data):
            partition.error_code = ErrorCode.POSITION_OUT_OF_RANGE
        else:
            partition.size = len(data)
            partition.unaligned_records = data[read.position : read.position + read.max_bytes]

    def _read(self, offset: int, max_bytes: int) -> bytes:
        out = b""
        for batch in self.batches:
            if batch.base_offset >= offset:
                if out and len(out) + len(batch.data) > max_bytes:
                    break
                out += batch.data
        return out
