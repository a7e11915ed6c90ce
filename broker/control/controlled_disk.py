"""A disk that a test makes slow, full or failing, around the one of the operating system.

    slow      each operation takes `delay_ms` longer
    full      no file can be created or extended, and there is no free space
    failing   operations fail with an I/O error: of a data directory, that takes it offline until the next start

Operations are of three kinds, of which a fault names some: `read`, `write` (with creation, renaming and deletion) and
`sync`. A delay blocks the calling thread, as a slow disk does: for writes, that is the event loop.
"""

# ruff: noqa: D102 - `storage.disk` documents the methods
from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import NamedTuple

from storage.disk import Buffer, Disk, File, Lock

READ, WRITE, SYNC = KINDS = ("read", "write", "sync")


class DiskFault(NamedTuple):
    """What is wrong with the disk, under the path `directory`; `left` operations of the kinds still have the fault."""

    fault: str
    kinds: frozenset[str]
    delay_s: float = 0.0
    directory: str = ""
    left: int | None = None


class ControlledDisk:
    """A disk with at most one fault."""

    def __init__(self, disk: Disk, sleep: Callable[[float], object]) -> None:
        """`sleep` blocks the calling thread for so many seconds."""
        self._disk = disk
        self._sleep = sleep
        self.open_files = disk.open_files
        self.fault: DiskFault | None = None

    def check(self, kind: str, path: str, *, extends: bool = False) -> None:
        """Let the fault act on an operation: return after a while, or raise OSError."""
        fault = self.fault
        if fault is None or kind not in fault.kinds or not self._is_under(fault, path):
            return
        if fault.fault == "full" and not extends:
            return
        if fault.left is not None:
            if fault.left == 0:
                return
            self.fault = fault._replace(left=fault.left - 1)
        if fault.fault == "slow":
            self._sleep(fault.delay_s)
            return
        code = errno.ENOSPC if fault.fault == "full" else errno.EIO
        raise OSError(code, os.strerror(code), path)

    def _is_under(self, fault: DiskFault, path: str) -> bool:
        return not fault.directory or f"{path}/".startswith(f"{fault.directory.rstrip('/')}/")

    def open_file(self, path: str, create: bool = False) -> ControlledFile:
        if create:
            self.check(WRITE, path, extends=True)
        return ControlledFile(self, self._disk.open_file(path, create))

    def read_file(self, path: str) -> bytes:
        self.check(READ, path)
        return self._disk.read_file(path)

    def read_regular_file(self, path: str, max_bytes: int) -> bytes:
        self.check(READ, path)
        return self._disk.read_regular_file(path, max_bytes)

    def replace_file(self, path: str, data: Buffer, sync: bool = True) -> None:
        self.check(WRITE, path, extends=True)
        if sync:
            self.check(SYNC, path)
        self._disk.replace_file(path, data, sync)

    def rename(self, source: str, target: str) -> None:
        self.check(WRITE, source)
        self._disk.rename(source, target)

    def remove(self, path: str) -> None:
        self.check(WRITE, path)
        self._disk.remove(path)

    def remove_tree(self, path: str) -> None:
        self.check(WRITE, path)
        self._disk.remove_tree(path)

    def make_dirs(self, path: str) -> None:
        self.check(WRITE, path, extends=True)
        self._disk.make_dirs(path)

    def list_dir(self, path: str) -> list[str]:
        self.check(READ, path)
        return self._disk.list_dir(path)

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def is_dir(self, path: str) -> bool:
        return self._disk.is_dir(path)

    def file_size(self, path: str) -> int:
        return self._disk.file_size(path)

    def modified_ms(self, path: str) -> int:
        return self._disk.modified_ms(path)

    def free_bytes(self, path: str) -> int:
        fault = self.fault
        if fault is not None and fault.fault == "full" and self._is_under(fault, path):
            return 0
        return self._disk.free_bytes(path)

    def total_bytes(self, path: str) -> int:
        return self._disk.total_bytes(path)

    def sync_dir(self, path: str) -> None:
        self.check(SYNC, path)
        self._disk.sync_dir(path)

    def lock(self, path: str, *, writes_pid: bool = True) -> Lock:
        return self._disk.lock(path, writes_pid=writes_pid)


class ControlledFile:
    """An open file on a `ControlledDisk`."""

    __slots__ = ("_disk", "_file", "path")

    def __init__(self, disk: ControlledDisk, file: File) -> None:
        self._disk = disk
        self._file = file
        self.path = file.path

    def pread(self, size: int, offset: int) -> bytes:
        self._disk.check(READ, self.path)
        return self._file.pread(size, offset)

    def pread_nowait(self, size: int, offset: int) -> Buffer | None:
        return None if self._has_fault else self._file.pread_nowait(size, offset)

    def send_nowait(self, socket: int, size: int, offset: int) -> int | None:
        return None if self._has_fault else self._file.send_nowait(socket, size, offset)

    @property
    def _has_fault(self) -> bool:
        """Whether reads must go through `pread`, where the fault acts on them."""
        fault = self._disk.fault
        return fault is not None and READ in fault.kinds

    def pwrite(self, data: Buffer, offset: int) -> None:
        self._disk.check(WRITE, self.path, extends=True)
        self._file.pwrite(data, offset)

    def truncate(self, size: int) -> None:
        self._disk.check(WRITE, self.path)
        self._file.truncate(size)

    def sync(self) -> None:
        self._disk.check(SYNC, self.path)
        self._file.sync()

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()
