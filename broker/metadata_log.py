"""The files of the metadata log: the log itself, its snapshots, the quorum's state, and the bootstrap checkpoint.

    bootstrap.checkpoint                               the first records of the cluster
    __cluster_metadata-0/quorum-state                  epoch and vote, replaced before anything relies on them
    __cluster_metadata-0/00...0-0000000000.checkpoint  the first voters; there from the start if voters can change
    __cluster_metadata-0/<end offset>-<epoch>.checkpoint   snapshots
    __cluster_metadata-0/*.log ...                     a log like any other, always synced

All of it is as Kafka writes it (KIP-595, KIP-630, KIP-853). The log begins where the oldest snapshot ends. Nothing
here knows what the records mean, nor of the event loop: the raft driver says what is done when, and in which thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from controller.batches import decode_entries, encode_entry
from controller.commands.bootstrap import bootstrap_records
from controller.raft import NOBODY, Entry, QuorumState
from controller.snapshot import Snapshot, SnapshotId, decode_snapshot, encode_snapshot, parse_snapshot_name
from controller.topic_names import CLUSTER_METADATA
from controller.voters import NO_DIRECTORY, VoterSet
from protocol.errors import DecodeError, InvariantError, KafkaError
from protocol.records.quorum_state import QuorumStateData, format_quorum_state, parse_quorum_state
from protocol.schema import Message
from storage.disk import Disk
from storage.flush import Flush
from storage.log import Log
from storage.log_config import LogConfig
from storage.log_directory import LogDirectory
from storage.opening import open_log
from storage.refusal import refuse_torn_end

METADATA_TOPIC_ID = bytes(15) + b"\x01"

_BOOTSTRAP = "bootstrap.checkpoint"
_QUORUM_STATE = "quorum-state"
_FIRST_VOTERS = SnapshotId(0, 0)
_READ_BYTES = 1 << 20


class Retention(NamedTuple):
    """How long old snapshots, and the log before them, are kept; -1 sets no limit."""

    max_bytes: int
    max_age_ms: int


class MetadataLog:
    """The metadata log of one node."""

    def __init__(self, disk: Disk, directory: LogDirectory, log: Log, snapshots: list[SnapshotId]) -> None:
        self._disk = disk
        self._root = directory.path
        self._log = log
        self._snapshots = snapshots
        # What a start from the newest snapshot would have to read.
        self.bytes_since_snapshot = 0

    @classmethod
    def open(
        cls, disk: Disk, directory: LogDirectory, voters: VoterSet | None, *, config: LogConfig, now_ms: int
    ) -> MetadataLog:
        """Open the log in `directory`; make it where there is none, with `voters` that can change, if given.

        LogRefused if its end is torn though the last stop was clean.
        """
        path = f"{directory.path}/{CLUSTER_METADATA}-0"
        if not disk.exists(f"{directory.path}/{_BOOTSTRAP}"):
            disk.make_dirs(path)
            if voters is not None:
                # First of all: without it, the quorum would be taken for one that cannot change.
                first = encode_snapshot((), epoch=0, now_ms=now_ms, last_timestamp_ms=now_ms, voters=voters)
                disk.replace_file(f"{path}/{_FIRST_VOTERS.file_name}", b"".join(first))
            # Else a power cut could leave the bootstrap checkpoint alone, and the next start take the rest for made.
            disk.sync_dir(directory.path)
            records = encode_snapshot(bootstrap_records(), epoch=0, now_ms=now_ms, last_timestamp_ms=0)
            disk.replace_file(f"{directory.path}/{_BOOTSTRAP}", b"".join(records))
        snapshots = sorted(filter(None, map(parse_snapshot_name, disk.list_dir(path))))
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
            clean=directory.clean,
            log_start_offset=snapshots[0].end_offset if snapshots else 0,
        )
        found = cls(disk, directory, log, snapshots)
        newest = found.newest_snapshot
        if newest is not None and log.log_end_offset < newest.end_offset:
            log.truncate_fully_and_start_at(newest.end_offset)
        return found

    @property
    def cut_bytes(self) -> int:
        """Return how many bytes that were no whole batches were cut off when the log was opened."""
        return self._log.recovery.truncated_bytes

    @property
    def end_offset(self) -> int:
        """Return the offset after the last record."""
        return self._log.log_end_offset

    @property
    def end_epoch(self) -> int:
        """Return the epoch of the last record, or that of the snapshot which the empty log begins with."""
        newest = self.newest_snapshot
        return max(self._log.leader_epochs.latest or 0, newest.epoch if newest else 0)

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        """Return the snapshot that stands for most of the log."""
        return self._snapshots[-1] if self._snapshots else None

    def bootstrap_records(self) -> tuple[Message, ...]:
        """Return the first records of the cluster."""
        return self._decode(f"{self._root}/{_BOOTSTRAP}").records

    def read_snapshot(self, snapshot: SnapshotId) -> Snapshot:
        """Return what a snapshot holds; InvariantError if its file is damaged."""
        return self._decode(f"{self._log.directory}/{snapshot.file_name}")

    def _decode(self, path: str) -> Snapshot:
        try:
            return decode_snapshot(self._disk.read_file(path))
        except (DecodeError, KafkaError, OSError) as error:
            raise InvariantError(f"{path} cannot be read: {error}") from error

    def read_quorum_state(self) -> QuorumState:
        """Return the stored state, or that of a node which has never voted."""
        path = f"{self._log.directory}/{_QUORUM_STATE}"
        try:
            data = parse_quorum_state(self._disk.read_file(path).decode(errors="replace"))
        except FileNotFoundError:
            return QuorumState()
        except DecodeError as error:
            raise InvariantError(f"{path}: {error}") from error
        return QuorumState(data.leader_epoch, data.leader_id, data.voted_id, data.voted_directory_id)

    def write_quorum_state(self, state: QuorumState, voters: VoterSet, kraft_version: int) -> None:
        """Store the state, durably."""
        data = QuorumStateData(
            leader_id=state.leader_id,
            leader_epoch=state.epoch,
            voted_id=state.voted_id,
            voted_directory_id=NO_DIRECTORY if state.voted_id == NOBODY else state.voted_directory_id,
            current_voters=[QuorumStateData.Voter(voter_id=voter_id) for voter_id in voters.by_id],
        )
        text = format_quorum_state(data, min(kraft_version, 1))
        self._disk.replace_file(f"{self._log.directory}/{_QUORUM_STATE}", text.encode())

    def read_entries(self, offset: int) -> Iterator[Entry]:
        """Yield the entries from `offset` to the end; InvariantError if one cannot be understood."""
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

    def append(self, entries: Sequence[Entry], now_ms: int) -> Flush | None:
        """Append entries, all or none; return the flush that makes them durable, if one is needed.

        KafkaError if they cannot be.
        """
        batches = b"".join(encode_entry(entry, now_ms) for entry in entries)
        self._log.append_as_follower(batches, max(entry.epoch for entry in entries), now_ms)
        self.bytes_since_snapshot += len(batches)
        return self._log.begin_flush(now_ms)

    def committed(self, high_watermark: int) -> None:
        """Take note of what can no longer be taken back."""
        self._log.update_high_watermark(high_watermark)

    def write_snapshot(self, snapshot: SnapshotId, data: bytes) -> None:
        """Store a snapshot, durably; may run in a thread."""
        self._disk.replace_file(f"{self._log.directory}/{snapshot.file_name}", data)

    def added_snapshot(self, snapshot: SnapshotId, retention: Retention, now_ms: int) -> None:
        """Count a stored snapshot as the newest, and drop what is before one and beyond its retention."""
        self._snapshots.append(snapshot)
        self._log.roll(now_ms)
        while len(self._snapshots) > 1 and self._is_beyond(retention, now_ms):
            oldest, following = self._snapshots[:2]
            self._log.advance_log_start(following.end_offset)
            self._log.delete_old_segments(now_ms)
            self._log.delete_files(now_ms)
            self._disk.remove(f"{self._log.directory}/{oldest.file_name}")
            del self._snapshots[0]

    def _is_beyond(self, retention: Retention, now_ms: int) -> bool:
        paths = [f"{self._log.directory}/{snapshot.file_name}" for snapshot in self._snapshots]
        size = self._log.size_bytes + sum(map(self._disk.file_size, paths))
        age_ms = now_ms - self._disk.modified_ms(paths[1])
        return 0 <= retention.max_bytes < size or 0 <= retention.max_age_ms < age_ms

    def close(self, now_ms: int) -> None:
        """Sync and close the log."""
        self._log.close(now_ms)
