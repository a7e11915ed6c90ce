"""A disk that a test makes slow, full or failing."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.control.controlled_disk import KINDS, READ, SYNC, WRITE, ControlledDisk, DiskFault
from storage.disk import OsDisk

OPERATIONS: dict[str, tuple[str, bool, Callable[[ControlledDisk, str], Any]]] = {
    "read": (READ, False, lambda disk, path: disk.open_file(f"{path}/f").pread(1, 0)),
    "read_file": (READ, False, lambda disk, path: disk.read_file(f"{path}/f")),
    "read_regular_file": (READ, False, lambda disk, path: disk.read_regular_file(f"{path}/f", 100)),
    "list_dir": (READ, False, lambda disk, path: disk.list_dir(path)),
    "write": (WRITE, True, lambda disk, path: disk.open_file(f"{path}/f").pwrite(b"x", 0)),
    "create": (WRITE, True, lambda disk, path: disk.open_file(f"{path}/new", create=True)),
    "replace_file": (WRITE, True, lambda disk, path: disk.replace_file(f"{path}/f", b"y", sync=False)),
    "make_dirs": (WRITE, True, lambda disk, path: disk.make_dirs(f"{path}/d")),
    "truncate": (WRITE, False, lambda disk, path: disk.open_file(f"{path}/f").truncate(0)),
    "rename": (WRITE, False, lambda disk, path: disk.rename(f"{path}/f", f"{path}/g")),
    "remove": (WRITE, False, lambda disk, path: disk.remove(f"{path}/f")),
    "remove_tree": (WRITE, False, lambda disk, path: disk.remove_tree(f"{path}/d")),
    "sync": (SYNC, False, lambda disk, path: disk.open_file(f"{path}/f").sync()),
    "sync_dir": (SYNC, False, lambda disk, path: disk.sync_dir(path)),
}


class Sound(ControlledDisk):
    """A disk that counts for how long it would have slept."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        super().__init__(OsDisk(), self.slept.append)


@pytest.fixture
def disk(tmp_path: Path) -> Sound:
    (tmp_path / "f").write_bytes(b"content")
    return Sound()


def fails(disk: ControlledDisk, tmp_path: Path, operation: str) -> int:
    """Return the errno of an operation, 0 if it succeeds."""
    try:
        OPERATIONS[operation][2](disk, str(tmp_path))
    except OSError as error:
        return error.errno or -1
    return 0


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_sound_disk_does_its_work(disk: Sound, tmp_path: Path, operation: str) -> None:
    assert fails(disk, tmp_path, operation) == 0


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_operations_of_a_kind_fail(disk: Sound, tmp_path: Path, operation: str, kind: str) -> None:
    disk.fault = DiskFault("failing", frozenset({kind}))
    assert fails(disk, tmp_path, operation) == (errno.EIO if OPERATIONS[operation][0] == kind else 0)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_full_disk_refuses_what_needs_space(disk: Sound, tmp_path: Path, operation: str) -> None:
    disk.fault = DiskFault("full", frozenset({WRITE}))
    assert fails(disk, tmp_path, operation) == (errno.ENOSPC if OPERATIONS[operation][1] else 0)
    assert disk.free_bytes(str(tmp_path)) == 0
    assert disk.total_bytes(str(tmp_path)) > 0


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_slow_disk_does_its_work_later(disk: Sound, tmp_path: Path, operation: str) -> None:
    disk.fault = DiskFault("slow", frozenset(KINDS), delay_s=0.5)
    assert fails(disk, tmp_path, operation) == 0
    assert disk.slept == [0.5]


def test_a_fault_is_that_of_one_directory(disk: Sound, tmp_path: Path) -> None:
    disk.fault = DiskFault("failing", frozenset(KINDS), directory=f"{tmp_path}x")
    assert fails(disk, tmp_path, "read") == 0
    disk.fault = DiskFault("failing", frozenset(KINDS), directory=str(tmp_path))
    assert fails(disk, tmp_path, "read") == errno.EIO


def test_a_fault_ends_after_so_many_operations(disk: Sound, tmp_path: Path) -> None:
    disk.fault = DiskFault("failing", frozenset({READ}), left=2)
    assert [fails(disk, tmp_path, "read") for _ in range(3)] == [errno.EIO, errno.EIO, 0]


def test_reads_without_waiting_are_left_to_the_reads_that_have_the_fault(disk: Sound, tmp_path: Path) -> None:
    file = disk.open_file(str(tmp_path / "f"))
    disk.fault = DiskFault("slow", frozenset({READ}), delay_s=1)
    assert file.pread_nowait(1, 0) is None
    assert file.send_nowait(0, 1, 0) is None
    disk.fault = None
    assert file.size() == 7
    file.close()


def test_a_lock_is_taken_on_the_disk(disk: Sound, tmp_path: Path) -> None:
    lock = disk.lock(str(tmp_path / ".lock"))
    assert disk.exists(str(tmp_path / ".lock"))
    lock.release()
