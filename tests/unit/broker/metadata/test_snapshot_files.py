"""Snapshot files: written whole, or received in parts."""

from __future__ import annotations

import pytest

from broker.metadata.snapshot_files import SnapshotFiles, read_checkpoint
from controller.raft.log import SnapshotId
from controller.snapshot import encode_snapshot
from protocol.errors import ErrorCode, InvariantError, KafkaError
from protocol.records.metadata import NoOpRecord
from protocol.schema import Message
from simulation.memory_disk import FileSynced, Linked, MemoryDisk, Renamed, Unlinked, Write
from storage.steps import finish

PATH = "/log"
FIRST, SECOND = SnapshotId(10, 1), SnapshotId(20, 2)


def content(records: int = 1) -> bytes:
    batches = encode_snapshot([NoOpRecord() for _ in range(records)], epoch=1, now_ms=0, last_timestamp_ms=0)
    return b"".join(batches)


@pytest.fixture
def disk() -> MemoryDisk:
    made = MemoryDisk(trace=[])
    made.make_dirs(PATH)
    return made


@pytest.fixture
def files(disk: MemoryDisk) -> SnapshotFiles:
    return SnapshotFiles(disk, PATH)


def receive(files: SnapshotFiles, snapshot: SnapshotId, data: bytes, part_bytes: int = 50) -> None:
    for at in range(0, len(data), part_bytes):
        files.write_part(snapshot, at, memoryview(data)[at : at + part_bytes])


def records_of(files: SnapshotFiles, snapshot: SnapshotId) -> tuple[Message, ...]:
    return files.read(snapshot).records


def test_empty_directory_has_no_snapshot(files: SnapshotFiles) -> None:
    assert (files.ids, files.oldest, files.newest) == ((), None, None)


def test_written_snapshot_is_listed_once_added_and_found_at_restart(disk: MemoryDisk, files: SnapshotFiles) -> None:
    files.write(SECOND, content(2))
    assert files.ids == ()
    files.add(SECOND)
    files.write(FIRST, content(1))
    files.add(FIRST)
    files.add(FIRST)
    assert files.ids == SnapshotFiles(disk, PATH).ids == (FIRST, SECOND)
    assert (files.oldest, files.newest) == (FIRST, SECOND)  # type: ignore[unreachable]  # changed by the call above
    assert records_of(files, SECOND) == (NoOpRecord(), NoOpRecord())


def test_damaged_snapshot_is_refused(disk: MemoryDisk, files: SnapshotFiles) -> None:
    files.write(FIRST, content()[:-1])
    with pytest.raises(InvariantError, match=r"00000000000000000010-0000000001\.checkpoint cannot be read: .*footer"):
        files.read(FIRST)
    with pytest.raises(InvariantError, match="/log/none cannot be read"):
        read_checkpoint(disk, "/log/none")


def test_snapshot_can_be_read_in_parts(files: SnapshotFiles) -> None:
    data = content(5)
    files.write(FIRST, data)
    files.add(FIRST)
    parts = [files.read_part(FIRST, at, 64) for at in range(0, len(data), 64)]
    assert b"".join(part.data for part in parts) == data
    assert {part.size_bytes for part in parts} == {len(data)}


def test_a_snapshot_that_is_gone_cannot_be_read_in_parts(files: SnapshotFiles) -> None:
    files.write(FIRST, content())
    for snapshot in (FIRST, SECOND):
        with pytest.raises(KafkaError) as refused:
            files.read_part(snapshot, 0, 64)
        assert refused.value.code is ErrorCode.SNAPSHOT_NOT_FOUND


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_read_position_beyond_snapshot_is_refused(files: SnapshotFiles, beyond: int) -> None:
    files.write(FIRST, content())
    files.add(FIRST)
    with pytest.raises(KafkaError) as refused:
        files.read_part(FIRST, -1 if beyond < 0 else len(content()) + beyond, 64)
    assert refused.value.code is ErrorCode.POSITION_OUT_OF_RANGE


def test_received_snapshot_equals_written_one(disk: MemoryDisk, files: SnapshotFiles) -> None:
    receive(files, FIRST, content(3))
    assert files.ids == ()
    assert finish(files.read_received(FIRST)).records == (NoOpRecord(),) * 3
    files.finish_part(FIRST)
    assert files.ids == (FIRST,)  # type: ignore[comparison-overlap]  # changed by the call above
    assert list(disk.files().values()) == [content(3)]  # type: ignore[unreachable]  # changed by the call above
    assert SnapshotFiles(disk, PATH).ids == (FIRST,)


def test_snapshot_is_synced_before_rename_and_directory_after(disk: MemoryDisk, files: SnapshotFiles) -> None:
    receive(files, FIRST, content(), part_bytes=1000)
    files.finish_part(FIRST)
    effects = [effect for effect in disk.trace or [] if not isinstance(effect, Linked)]
    written, synced, renamed, names_synced = effects
    assert isinstance(written, Write)
    assert isinstance(synced, FileSynced)
    assert synced.node is written.node
    assert isinstance(renamed, Renamed)
    assert isinstance(names_synced, FileSynced)
    assert names_synced.node is renamed.parent


def test_a_part_that_does_not_follow_is_refused(files: SnapshotFiles) -> None:
    files.write_part(FIRST, 0, b"abc")
    for snapshot, position in ((FIRST, 2), (FIRST, 4), (SECOND, 3)):
        with pytest.raises(InvariantError, match="does not follow"):
            files.write_part(snapshot, position, b"d")
    files.write_part(FIRST, 3, b"d")


def test_part_at_position_0_restarts_download(disk: MemoryDisk, files: SnapshotFiles) -> None:
    receive(files, FIRST, b"x" * 1000)
    receive(files, FIRST, content())
    files.finish_part(FIRST)
    assert list(disk.files().values()) == [content()]


def test_download_of_other_snapshot_replaces_present_one(disk: MemoryDisk, files: SnapshotFiles) -> None:
    receive(files, FIRST, content())
    receive(files, SECOND, content())
    with pytest.raises(InvariantError, match="was not received"):
        finish(files.read_received(FIRST))
    with pytest.raises(InvariantError, match="was not received"):
        files.finish_part(FIRST)
    files.finish_part(SECOND)
    assert list(disk.files()) == [f"{PATH}/{SECOND.file_name}"]


def test_incomplete_snapshot_is_refused_and_not_listed(disk: MemoryDisk, files: SnapshotFiles) -> None:
    receive(files, FIRST, content()[:-1])
    with pytest.raises(InvariantError, match="cannot be read"):
        finish(files.read_received(FIRST))
    assert files.ids == SnapshotFiles(disk, PATH).ids == ()


def test_start_removes_only_incomplete_snapshot_files(disk: MemoryDisk, files: SnapshotFiles) -> None:
    receive(files, FIRST, content())
    for name in ("quorum-state", "notes.part", f"{SECOND.file_name}.tmp"):
        disk.open_file(f"{PATH}/{name}", create=True)
    SnapshotFiles(disk, PATH)
    assert sorted(disk.files()) == [f"{PATH}/{SECOND.file_name}.tmp", f"{PATH}/notes.part", f"{PATH}/quorum-state"]
    removed = [effect.name for effect in disk.trace or [] if isinstance(effect, Unlinked)]
    assert removed == [f"{FIRST.file_name}.part"]


def test_newest_snapshot_is_kept(disk: MemoryDisk, files: SnapshotFiles) -> None:
    for snapshot in (FIRST, SECOND):
        files.write(snapshot, content())
        files.add(snapshot)
    files.remove_before(10)
    assert files.ids == (FIRST, SECOND)
    files.remove_before(1000)
    assert files.ids == (SECOND,)  # type: ignore[comparison-overlap]  # changed by the call above
    assert list(disk.files()) == [files.path(SECOND)]  # type: ignore[unreachable]  # changed by the call above
