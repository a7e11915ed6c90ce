"""The metadata log's files: log, snapshots, quorum state and bootstrap checkpoint (Kafka: `KafkaRaftLog`).

    bootstrap.checkpoint                               the first records of the cluster
    __cluster_metadata-0/quorum-state                  epoch and vote, replaced durably before they take effect
    __cluster_metadata-0/00...0-0000000000.checkpoint  the first voters; written first if voters can change
    __cluster_metadata-0/<end offset>-<epoch>.checkpoint   snapshots
    __cluster_metadata-0/*.log ...                     an ordinary log, always synced

All formats are Kafka's (KIP-595, KIP-630, KIP-853). The log starts at the end of the oldest snapshot. This module knows
neither the meaning of the records nor the event loop: `raft_driver` and `ready_performer` decide what is done when, and
in which thread.

A follower's log is made equal to its leader's in three ways, in this order: its end is truncated, or all of it is
replaced by a received snapshot, and the leader's batches are appended. A power loss between the steps of a replacement
leaves the complete snapshot beside the old log, and the next start continues:

    the part file is synced and renamed          from now on the snapshot counts
    the log is truncated to the snapshot's end   at a start: a log that ends before it, or in an earlier epoch, too
    older snapshots are removed                  at a start: those that end before the log start, too

A killed process leaves the page cache, in which a start finds what was written and not synced. After an unclean
shutdown `MetadataLog.open` syncs it before a vote or a fetch relies on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from broker.metadata.snapshot_files import ReadPart, SnapshotFiles, read_checkpoint
from controller.batches import decode_entries, encode_entry
from controller.commands.bootstrap import bootstrap_records
from controller.raft.log import Entry, RaftLog, SnapshotId
from controller.raft.messages import NO_NODE, ElectionState, ReceivedBatches
from controller.raft.voters import NO_DIRECTORY, VoterSet
from controller.snapshot import Snapshot, encode_snapshot
from controller.topic_names import CLUSTER_METADATA, METADATA_TOPIC_ID
from protocol.errors import DecodeError, InvariantError, KafkaError
from protocol.records.quorum_state import QuorumStateData, format_quorum_state, parse_quorum_state
from protocol.schema import Message
from storage.disk import Buffer, Disk
from storage.log.config import LogConfig
from storage.log.corruption_checks import refuse_torn_end
from storage.log.flush import Flush
from storage.log.leader_epochs import EpochEntry
from storage.log.loader import open_log
from storage.log.log import Log
from storage.log.log_checkpoint import LogCheckpoint
from storage.log.segment import LOG_SUFFIX
from storage.log_directory import LogDirectory
from storage.steps import Steps

_BOOTSTRAP = "bootstrap.checkpoint"
_QUORUM_STATE = "quorum-state"
_FIRST_VOTERS = SnapshotId(0, 0)
_READ_BYTES = 1 << 20


class Retention(NamedTuple):
    """Retention of old snapshots and of the log before them; -1 sets no limit."""

    max_bytes: int
    max_age_ms: int


def has_metadata_log(disk: Disk, directory: LogDirectory) -> bool:
    """Return whether the directory has the metadata log of an existing cluster, or at least its first records."""
    return disk.exists(f"{directory.path}/{_BOOTSTRAP}")


class MetadataLog:
    """The metadata log of one node."""

    def __init__(self, disk: Disk, directory: LogDirectory, log: Log, snapshots: SnapshotFiles) -> None:
        self._disk = disk
        self._directory = directory
        self._log = log
        self._snapshots = snapshots
        # The bytes of log after the newest snapshot, which a restart reads.
        self.bytes_since_snapshot = 0

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: LogDirectory,
        voters: VoterSet | None,
        *,
        config: LogConfig,
        now_ms: int,
        first_records: tuple[Message, ...] = (),
    ) -> MetadataLog:
        """Open the log in `directory`, or create it; `voters` are the first ones of a quorum whose voters can change.

        `first_records` follow the feature levels in the bootstrap checkpoint of a new log; others ignore them.
        LogRefused if the end of the log is torn although the last stop was clean.
        """
        path = f"{directory.path}/{CLUSTER_METADATA}-0"
        if not has_metadata_log(disk, directory):
            disk.make_dirs(path)
            if voters is not None:
                # Written first: without it, a start would assume static voters.
                first = encode_snapshot((), epoch=0, now_ms=now_ms, last_timestamp_ms=now_ms, voters=voters)
                disk.replace_file(f"{path}/{_FIRST_VOTERS.file_name}", b"".join(first))
            # Sync before the bootstrap checkpoint exists: a start that finds it assumes that the rest exists too.
            disk.sync_dir(directory.path)
            records = encode_snapshot(
                (*bootstrap_records(), *first_records), epoch=0, now_ms=now_ms, last_timestamp_ms=0
            )
            disk.replace_file(f"{directory.path}/{_BOOTSTRAP}", b"".join(records))
        elif not directory.clean:
            # A killed process may have renamed a vote or a snapshot and not synced it: a power cut would revert it
            # after this start has granted the vote, or trimmed the log up to the snapshot.
            disk.sync_dir(path)
        snapshots = SnapshotFiles(disk, path)
        if directory.clean:
            refuse_torn_end(disk, path)
        log = open_log(
            disk,
            directory,
            CLUSTER_METADATA,
            0,
            config,
            now_ms=now_ms,
            topic_id=METADATA_TOPIC_ID,
            checkpoint=LogCheckpoint(directory.clean, log_start_offset=_start_offset(disk, path, snapshots.ids)),
        )
        newest = snapshots.newest
        if newest is not None:
            if _is_behind(log, newest):
                log.truncate_fully_and_start_at(newest.end_offset)
                log.flush(now_ms)  # otherwise the emptied leader epochs would not be written
            snapshots.remove_before(log.log_start_offset)
        if log.recovery_point < log.log_end_offset:
            # The leader counts the offset that this node fetches from as durable, also before the next append.
            log.flush(now_ms)
        if newest is not None:
            log.update_high_watermark(newest.end_offset)
        return cls(disk, directory, log, snapshots)

    @property
    def truncated_bytes(self) -> int:
        """Return the number of bytes of incomplete batches that were truncated when the log was opened."""
        return self._log.recovery.truncated_bytes

    @property
    def failed(self) -> bool:
        """Return whether the log directory has failed."""
        return self._directory.failure is not None

    @property
    def start_offset(self) -> int:
        """Return the offset of the first record."""
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        """Return the offset after the last record."""
        return self._log.log_end_offset

    @property
    def end_epoch(self) -> int:
        """Return the epoch of the last record, or of the newest snapshot if the log is empty."""
        newest = self.newest_snapshot
        return max(self._log.leader_epochs.latest or 0, newest.epoch if newest else 0)

    @property
    def high_watermark(self) -> int:
        """Return the high watermark of the last performed Ready; at a start, the end of the newest snapshot."""
        return self._log.high_watermark

    @property
    def epochs(self) -> tuple[EpochEntry, ...]:
        """Return the leader epochs with their start offsets, oldest first."""
        return self._log.leader_epochs.entries

    @property
    def oldest_snapshot(self) -> SnapshotId | None:
        """Return the snapshot at whose end the log starts; None if there is none."""
        return self._snapshots.oldest

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        """Return the newest snapshot; None if there is none."""
        return self._snapshots.newest

    def raft_log(self) -> RaftLog:
        """Return Raft's view of this log, as it is stored; Raft then decides what is stored next."""
        return RaftLog(
            self.end_offset,
            self.end_epoch,
            high_watermark=self.high_watermark,
            epochs=self.epochs,
            oldest_snapshot=self.oldest_snapshot,
            newest_snapshot=self.newest_snapshot,
        )

    def bootstrap_records(self) -> tuple[Message, ...]:
        """Return the first records of the cluster. InvariantError if the file is missing or damaged."""
        return read_checkpoint(self._disk, f"{self._directory.path}/{_BOOTSTRAP}").records

    def read_snapshot(self, snapshot: SnapshotId) -> Snapshot:
        """Return the contents of a snapshot; InvariantError if its file is missing or damaged."""
        return self._snapshots.read(snapshot)

    def read_snapshot_part(self, snapshot: SnapshotId, position: int, max_bytes: int) -> ReadPart:
        """Return at most `max_bytes` of a snapshot's file from `position` on, for FetchSnapshot.

        KafkaError SNAPSHOT_NOT_FOUND if there is none, POSITION_OUT_OF_RANGE if `position` is outside the file,
        KAFKA_STORAGE_ERROR if it cannot be read.
        """
        with self._directory.storage_errors():
            return self._snapshots.read_part(snapshot, position, max_bytes)

    def read_quorum_state(self) -> ElectionState:
        """Return the stored election state; the initial one if none is stored."""
        data = self._read_quorum_state()
        if data is None:
            return ElectionState()
        return ElectionState(data.leader_epoch, data.leader_id, data.voted_id, data.voted_directory_id)

    def read_quorum_voters(self) -> frozenset[int]:
        """Return the voters stored with the quorum state; empty if the log defines the voters."""
        data = self._read_quorum_state()
        return frozenset(voter.voter_id for voter in (data and data.current_voters) or ())

    def _read_quorum_state(self) -> QuorumStateData | None:
        path = f"{self._log.directory}/{_QUORUM_STATE}"
        try:
            return parse_quorum_state(self._disk.read_file(path).decode(errors="replace"))
        except FileNotFoundError:
            return None
        except DecodeError as error:
            raise InvariantError(f"{path}: {error}") from error

    def write_quorum_state(self, state: ElectionState, voters: VoterSet, kraft_version: int) -> None:
        """Store the election state durably; may run in a thread. KafkaError if it cannot be written."""
        data = QuorumStateData(
            leader_id=state.leader_id,
            leader_epoch=state.epoch,
            voted_id=state.voted_id,
            voted_directory_id=NO_DIRECTORY if state.voted_id == NO_NODE else state.voted_directory_id,
            current_voters=[QuorumStateData.Voter(voter_id=voter_id) for voter_id in voters.by_id],
        )
        text = format_quorum_state(data, min(kraft_version, 1))
        with self._directory.storage_errors():
            self._disk.replace_file(f"{self._log.directory}/{_QUORUM_STATE}", text.encode())

    def read_entries(self, offset: int) -> Iterator[Entry]:
        """Yield the entries from `offset` to the end; InvariantError if one cannot be decoded."""
        log = self._log
        while offset < log.log_end_offset:
            read = log.read(offset, _READ_BYTES, limit_offset=log.log_end_offset)
            self.bytes_since_snapshot += read.size_bytes
            for part in read.slices:
                try:
                    for entry in decode_entries(part.read(0, part.size_bytes)):
                        yield entry
                        offset = entry.next_offset
                except (DecodeError, KafkaError) as error:
                    raise InvariantError(f"{log.directory} cannot be read from offset {offset} on: {error}") from error

    def read_batches(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from `offset` on, committed or not: `max_bytes` at most, but at least one batch.

        Empty at the end of the log. KafkaError OFFSET_OUT_OF_RANGE before the log start or after the log end,
        KAFKA_STORAGE_ERROR if they cannot be read.
        """
        read = self._log.read(offset, max_bytes, limit_offset=self._log.log_end_offset)
        with self._directory.storage_errors():
            return b"".join(part.read(0, part.size_bytes) for part in read.slices)

    def append(self, entries: Sequence[Entry], now_ms: int) -> Flush | None:
        """Append entries, all or none. Return the flush that makes them durable; None if no sync is needed.

        KafkaError if they cannot be written.
        """
        batches = b"".join(encode_entry(entry, now_ms) for entry in entries)
        self._log.append_as_follower(batches, max(entry.epoch for entry in entries), now_ms)
        self.bytes_since_snapshot += len(batches)
        return self._log.begin_flush(now_ms)

    def receive(self, received: ReceivedBatches, now_ms: int) -> Flush | None:
        """Append a leader's batches, all or none; return as `append`.

        InvariantError if they do not start at the log end; KafkaError if they cannot be written.
        """
        log, base_offset = self._log, received.entries[0].base_offset
        if base_offset != log.log_end_offset:
            raise InvariantError(f"batches from {base_offset} received, but {log.log_end_offset} is next")
        log.append_validated(received.batches, received.headers, now_ms)
        self.bytes_since_snapshot += len(received.batches)
        return log.begin_flush(now_ms)

    def truncate(self, end_offset: int) -> None:
        """Truncate the log to `end_offset`, durably.

        InvariantError if `end_offset` is below the high watermark or inside a batch; KafkaError if the truncation
        fails.
        """
        log, committed = self._log, self.high_watermark
        if end_offset < committed:
            raise InvariantError(f"{log.directory}: cannot truncate to {end_offset}, as {committed} is committed")
        if log.truncate_to(end_offset) and log.log_end_offset != end_offset:
            raise InvariantError(f"{log.directory}: cannot truncate to {end_offset}, inside a batch")

    def committed(self, high_watermark: int) -> bool:
        """Advance the high watermark; return whether it moved."""
        before = self.high_watermark
        return self._log.update_high_watermark(high_watermark) > before

    def write_snapshot(self, snapshot: SnapshotId, data: bytes) -> None:
        """Write a snapshot of this log durably; may run in a thread. OSError."""
        self._snapshots.write(snapshot, data)

    def add_snapshot(self, snapshot: SnapshotId, retention: Retention, now_ms: int) -> None:
        """Make a written snapshot the newest, and delete older snapshots beyond `retention` and the log before them."""
        self._snapshots.add(snapshot)
        self._log.roll(now_ms)
        while len(self._snapshots.ids) > 1 and self._is_beyond(retention, now_ms):
            following = self._snapshots.ids[1].end_offset
            self._log.advance_log_start(following)
            self._log.delete_old_segments(now_ms)
            self._log.delete_files(now_ms)
            self._snapshots.remove_before(following)

    def _is_beyond(self, retention: Retention, now_ms: int) -> bool:
        paths = list(map(self._snapshots.path, self._snapshots.ids))
        size = self._log.size_bytes + sum(map(self._disk.file_size, paths))
        age_ms = now_ms - self._disk.modified_ms(paths[1])
        return 0 <= retention.max_bytes < size or 0 <= retention.max_age_ms < age_ms

    def write_snapshot_part(self, snapshot: SnapshotId, position: int, data: Buffer) -> None:
        """Write the next part of a snapshot that is being received; position 0 starts a new one.

        May run in a thread. InvariantError if it does not follow the previous part; KafkaError if it cannot be written.
        """
        with self._directory.storage_errors():
            self._snapshots.write_part(snapshot, position, data)

    def reset_to_snapshot(self, snapshot: SnapshotId) -> Steps[Snapshot]:
        """Replace the whole log by a completely received snapshot, durably; return the snapshot's contents.

        In steps, since decoding takes long. InvariantError if the file is incomplete or the high watermark is above the
        snapshot's end; KafkaError if the replacement fails.
        """
        if snapshot.end_offset < self.high_watermark:
            raise InvariantError(f"{snapshot.file_name} ends below {self.high_watermark}, the high watermark")
        contents = yield from self._snapshots.read_received(snapshot)
        yield partial(self._replace_by, snapshot)
        return contents

    def _replace_by(self, snapshot: SnapshotId) -> None:
        with self._directory.storage_errors():
            self._snapshots.finish_part(snapshot)
        self._log.truncate_fully_and_start_at(snapshot.end_offset)
        with self._directory.storage_errors():
            self._snapshots.remove_before(snapshot.end_offset)
        self.bytes_since_snapshot = 0

    def close(self, now_ms: int) -> None:
        """Sync and close the log."""
        self._log.close(now_ms)


def _start_offset(disk: Disk, path: str, snapshots: Sequence[SnapshotId]) -> int:
    """Return the log start: the end of the oldest snapshot that does not end before the first segment; 0 if none."""
    stems = [name.removesuffix(LOG_SUFFIX) for name in disk.list_dir(path) if name.endswith(LOG_SUFFIX)]
    first = min((int(stem) for stem in stems if stem.isdecimal()), default=0)
    return next((snapshot.end_offset for snapshot in snapshots if snapshot.end_offset >= first), 0)


def _is_behind(log: Log, snapshot: SnapshotId) -> bool:
    """Return whether the log ends before `snapshot`, or in an earlier epoch: then the snapshot was received."""
    if log.log_start_offset == log.log_end_offset == snapshot.end_offset:
        return False
    return log.log_end_offset < snapshot.end_offset or (log.leader_epochs.latest or 0) < snapshot.epoch
