"""A simulated node's disk with the real metadata log on it: model and files perform every step and must agree.

A crash is a power cut: of unsynced data, the files keep what `simulation.power_cut` leaves.
"""

from __future__ import annotations

from random import Random
from typing import Any

from broker.metadata.metadata_log import MetadataLog, Retention
from controller.raft.follower import scan
from controller.raft.log import Entry, SnapshotId
from controller.raft.messages import ElectionState, LogRead, SnapshotPart, SnapshotRead
from controller.raft.voters import Voter, VoterSet
from protocol.errors import ErrorCode, KafkaError
from simulation.memory_disk import MemoryDisk
from simulation.power_cut import Platter
from storage.log.config import LogConfig
from storage.log.flush import Flush
from storage.log.leader_epochs import EpochEntry
from storage.log_directory import LogDirectory
from storage.steps import finish
from tests.simulation.raft_disk import RaftDisk
from tests.typed import present

DIRECTORY = "/a"
VOTERS = VoterSet([Voter(1)])
CONFIG = LogConfig(cleanup_policy=frozenset(), segment_bytes=2000, file_delete_delay_ms=0, index_interval_bytes=512)
KEEP, TRIM = Retention(-1, -1), Retention(0, -1)


class RaftFiles(RaftDisk):
    """The model, and the files that must equal it."""

    def __init__(self) -> None:
        self.state: ElectionState | None = None
        super().__init__()
        disk = MemoryDisk()
        disk.make_dirs(DIRECTORY)
        self._flushes: list[Flush | None] = []
        self._open(disk)

    def _open(self, disk: MemoryDisk) -> None:
        disk.trace = []
        self._disk = disk
        self._platter = Platter(disk)
        directory = LogDirectory(disk, DIRECTORY)
        directory.open()
        self.log = MetadataLog.open(disk, directory, None, config=CONFIG, now_ms=0)

    @property
    def quorum_state(self) -> ElectionState | None:
        return self.state

    @quorum_state.setter
    def quorum_state(self, state: ElectionState | None) -> None:
        self.state = state
        if state is not None:
            self.log.write_quorum_state(state, VOTERS, 0)

    def epochs(self) -> list[EpochEntry]:
        epochs = list(self.log.epochs)
        assert epochs == super().epochs()
        return epochs

    def append_entry(self, entry: Entry, now_ms: int) -> None:
        end = self.log.end_offset
        self._flushes.append(self.log.append([entry], now_ms))
        super().append_batches(entry.base_offset, self.log.read_batches(end, 1 << 20))

    def append_batches(self, base_offset: int, data: bytes) -> None:
        before = len(self.batches)
        super().append_batches(base_offset, data)
        received = self.batches[before:]
        sent = present(scan(data, self.log.raft_log(), self.end_epoch).received)
        assert [entry.next_offset for entry in sent.entries] == [batch.next_offset for batch in received]
        self._flushes.append(self.log.receive(sent, 0))

    def sync(self) -> None:
        for flush in self._flushes:
            if flush is not None:
                flush.run()
        self._flushes.clear()
        super().sync()

    def truncate(self, end_offset: int) -> None:
        super().truncate(end_offset)
        self.log.truncate(end_offset)
        self._agree()

    def crash(self, random: Random) -> None:
        for effect in self._disk.trace or []:
            self._platter.follow(effect)
        self._flushes.clear()
        self._part.clear()
        self._open(self._platter.cut(random))
        assert self.log.newest_snapshot == self.snapshot
        assert self.log.read_quorum_state() == (self.state or ElectionState())
        kept = sum(batch.next_offset <= self.log.end_offset for batch in self.batches)
        assert kept >= self.synced, f"{kept} batches were found, and {self.synced} had been synced"
        del self.batches[kept:]
        self.synced = kept
        self._trimmed()
        self._agree()

    def take_snapshot(self, snapshot: SnapshotId, data: bytes, *, trim: bool) -> None:
        self.log.committed(snapshot.end_offset)
        self.log.write_snapshot(snapshot, data)
        self.log.add_snapshot(snapshot, TRIM if trim else KEEP, 0)
        self.snapshots[snapshot] = data
        self._trimmed()
        self._agree()

    def write_part(self, part: SnapshotPart) -> None:
        super().write_part(part)
        self.log.write_snapshot_part(*part)

    def reset_to_snapshot(self, snapshot: SnapshotId) -> None:
        super().reset_to_snapshot(snapshot)
        finish(self.log.reset_to_snapshot(snapshot))
        self._agree()

    def fill_in(self, response: Any, read: LogRead | SnapshotRead) -> None:
        super().fill_in(response, read)
        if isinstance(read, LogRead):
            partition = response.responses[0].partitions[0]
            records = self.log.read_batches(read.offset, read.max_bytes)  # of one segment, and so perhaps fewer
            assert partition.records.startswith(records)
            assert bool(records) == bool(partition.records)
            partition.records = records
            return
        partition = response.topics[0].partitions[0]
        code = ErrorCode.NONE
        try:
            part = self.log.read_snapshot_part(*read)
            assert (partition.unaligned_records, partition.size) == part
        except KafkaError as error:
            code = error.code
        assert partition.error_code == code

    def _trimmed(self) -> None:
        """Drop from the model what the log and the snapshots have dropped."""
        dropped = sum(batch.next_offset <= self.log.start_offset for batch in self.batches)
        del self.batches[:dropped]
        self.synced -= dropped
        oldest = self.log.oldest_snapshot
        self.snapshots = {snapshot: data for snapshot, data in self.snapshots.items() if oldest and snapshot >= oldest}
        self.oldest = oldest if oldest is not None and oldest.end_offset == self.log.start_offset else None

    def _agree(self) -> None:
        log = self.log
        assert (log.end_offset, log.end_epoch) == (self.end_offset, self.end_epoch)
        entries = [(entry.base_offset, entry.epoch) for entry in log.read_entries(log.start_offset)]
        assert entries == [(batch.base_offset, batch.epoch) for batch in self.batches]
