"""Snapshot files of the metadata log: written here, read in parts for FetchSnapshot, received in parts from the leader.

    <end offset>-<epoch>.checkpoint        a complete snapshot, synced before it gets this name
    <end offset>-<epoch>.checkpoint.part   a snapshot that is being received; removed at a start

A complete file never changes; `controller.snapshot` defines its contents. `metadata_log` decides which snapshots are
deleted, and the log with them.
"""

from functools import partial
from typing import NamedTuple

from controller.raft.log import SnapshotId
from controller.snapshot import Snapshot, decode_snapshot_in_steps, parse_snapshot_name
from protocol.errors import DecodeError, ErrorCode, InvariantError, KafkaError
from storage.disk import Buffer, Disk, reason
from storage.steps import Steps, finish

_PART = ".part"


class ReadPart(NamedTuple):
    """Bytes of a snapshot's file, and the file's size."""

    data: bytes
    size_bytes: int


class SnapshotFiles:
    """The snapshots in one directory. Every method can raise OSError."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """List the snapshots, and remove partly received ones."""
        self._disk = disk
        self._directory = directory
        names = disk.list_dir(directory)
        self._ids = sorted(filter(None, map(parse_snapshot_name, names)))
        for name in names:
            if parse_snapshot_name(name.removesuffix(_PART)) is not None and name.endswith(_PART):
                disk.remove(f"{directory}/{name}")
        # The snapshot that is being received, and its bytes so far.
        self._receiving: SnapshotId | None = None
        self._received_bytes = 0

    @property
    def ids(self) -> tuple[SnapshotId, ...]:
        """Return the complete snapshots, oldest first."""
        return tuple(self._ids)

    @property
    def oldest(self) -> SnapshotId | None:
        """Return the snapshot at whose end the log starts; None if there is none."""
        return self._ids[0] if self._ids else None

    @property
    def newest(self) -> SnapshotId | None:
        """Return the newest snapshot; None if there is none."""
        return self._ids[-1] if self._ids else None

    def read(self, snapshot: SnapshotId) -> Snapshot:
        """Return the contents of a snapshot; InvariantError if its file is missing or damaged."""
        return read_checkpoint(self._disk, self.path(snapshot))

    def read_part(self, snapshot: SnapshotId, position: int, max_bytes: int) -> ReadPart:
        """Return at most `max_bytes` of a snapshot's file from `position` on.

        KafkaError SNAPSHOT_NOT_FOUND if there is none, POSITION_OUT_OF_RANGE if `position` is outside the file.
        """
        if snapshot not in self._ids:
            raise KafkaError(ErrorCode.SNAPSHOT_NOT_FOUND, f"unknown snapshot {snapshot.file_name}")
        file = self._disk.open_file(self.path(snapshot))
        try:
            size_bytes = file.size()
            if not 0 <= position < size_bytes:
                raise KafkaError(
                    ErrorCode.POSITION_OUT_OF_RANGE, f"{snapshot.file_name} has {size_bytes} bytes, none at {position}"
                )
            return ReadPart(file.pread(min(max_bytes, size_bytes - position), position), size_bytes)
        finally:
            file.close()

    def write(self, snapshot: SnapshotId, data: Buffer) -> None:
        """Write a complete snapshot durably; `add` makes it visible. May run in a thread."""
        self._disk.replace_file(self.path(snapshot), data)

    def add(self, snapshot: SnapshotId) -> None:
        """Add a written snapshot to `ids`."""
        if snapshot not in self._ids:
            self._ids = sorted([*self._ids, snapshot])

    def write_part(self, snapshot: SnapshotId, position: int, data: Buffer) -> None:
        """Write the next part of a snapshot that is being received; position 0 starts a new file.

        InvariantError if it does not follow the previous part.
        """
        if position == 0:
            self._stop_receiving()
            self._receiving = snapshot
        elif (snapshot, position) != (self._receiving, self._received_bytes):
            raise InvariantError(f"position {position} of {snapshot.file_name} does not follow the received bytes")
        file = self._disk.open_file(self.path(snapshot) + _PART, create=True)
        try:
            file.pwrite(data, position)
        finally:
            file.close()
        self._received_bytes = position + len(data)

    def read_received(self, snapshot: SnapshotId) -> Steps[Snapshot]:
        """Return the contents of the received snapshot, in steps.

        InvariantError if it is incomplete, or if another one was received.
        """
        self._check_received(snapshot)
        return (yield from _read_checkpoint(self._disk, self.path(snapshot) + _PART))

    def finish_part(self, snapshot: SnapshotId) -> None:
        """Sync and rename the received file, after `read_received` has validated it, and add the snapshot.

        InvariantError if another one was received.
        """
        self._check_received(snapshot)
        path = self.path(snapshot)
        file = self._disk.open_file(path + _PART)
        try:
            file.sync()
        finally:
            file.close()
        self._disk.rename(path + _PART, path)
        self._disk.sync_dir(self._directory)
        self._receiving = None
        self.add(snapshot)

    def remove_before(self, offset: int) -> None:
        """Remove the snapshots that end before `offset`, except the newest."""
        while len(self._ids) > 1 and self._ids[0].end_offset < offset:
            self._disk.remove(self.path(self._ids.pop(0)))

    def path(self, snapshot: SnapshotId) -> str:
        """Return the path of a snapshot's file."""
        return f"{self._directory}/{snapshot.file_name}"

    def _check_received(self, snapshot: SnapshotId) -> None:
        if snapshot != self._receiving:
            raise InvariantError(f"{snapshot.file_name} was not received")

    def _stop_receiving(self) -> None:
        if self._receiving is not None:
            self._disk.remove(self.path(self._receiving) + _PART)
        self._receiving = None


def read_checkpoint(disk: Disk, path: str) -> Snapshot:
    """Return the contents of a checkpoint file; InvariantError if it is missing or damaged."""
    return finish(_read_checkpoint(disk, path))


def _read_checkpoint(disk: Disk, path: str) -> Steps[Snapshot]:
    try:
        data = yield partial(disk.read_file, path)
        return (yield from decode_snapshot_in_steps(data))
    except (DecodeError, KafkaError, OSError) as error:
        why = reason(error)
        raise InvariantError(f"{path} cannot be read: {why}") from error
