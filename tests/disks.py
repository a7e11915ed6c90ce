"""Disk for tests whose n-th call of a kind fails."""

import errno
import os

from storage.disk import Buffer, OsDisk, OsFile

_NEEDS_SPACE = ("create", "replace", "pwrite")
_NEEDS_BLOCKS = ("replace", "pwrite")


class FaultyDisk(OsDisk):
    """The real disk; a call of an armed kind fails once, a write after half of its data."""

    def __init__(self, *, spared: str = "") -> None:
        """Neither record nor fail calls with `spared` in their path, if given."""
        super().__init__()
        self._spared = spared
        self.calls: list[tuple[str, str]] = []
        self._armed: dict[str, tuple[int, int]] = {}
        self.full = False
        """While set, every call that creates or extends a file fails."""
        self.blocks_full = False
        """While set, no file can be extended, but empty files can be created, as on most full file systems."""
        self.forbidden = ""
        """The path of a file that cannot be opened."""
        self.cold = False
        """While set, no read is served from the page cache: non-blocking reads fail."""

    def arm(self, kind: str, code: int = errno.EIO, *, after: int = 0) -> None:
        """Make a call of `kind` fail with `code`, after `after` calls that succeed."""
        self._armed[kind] = (after, code)

    def disarm(self, kind: str) -> bool:
        """Disarm `kind`; return whether a call has failed."""
        return self._armed.pop(kind, None) is None

    def called(self, kind: str) -> list[str]:
        """Return the file names of the calls of `kind`."""
        return [os.path.basename(path) for made, path in self.calls if made == kind]

    def check(self, kind: str, path: str) -> None:
        if self._spared and self._spared in path:
            return
        self.calls.append((kind, path))
        if (self.full and kind in _NEEDS_SPACE) or (self.blocks_full and kind in _NEEDS_BLOCKS):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if path == self.forbidden:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        if kind in self._armed:
            left, code = self._armed[kind]
            if left == 0:
                del self._armed[kind]
                raise OSError(code, os.strerror(code), path)
            self._armed[kind] = (left - 1, code)

    def open_file(self, path: str, create: bool = False) -> OsFile:
        self.check("create" if create else "open", path)
        return FaultyFile(self, path, os.O_RDWR | (os.O_CREAT if create else 0))

    def read_file(self, path: str) -> bytes:
        if "read" in self._armed:  # reads count only when armed: most tests compare the calls that change files
            self.check("read", path)
        return super().read_file(path)

    def replace_file(self, path: str, data: Buffer, sync: bool = True) -> None:
        self.check("replace", path)
        super().replace_file(path, data, sync)

    def free_bytes(self, path: str) -> int:
        return 0 if self.full or self.blocks_full else super().free_bytes(path)

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        super().rename(source, target)

    def remove_tree(self, path: str) -> None:
        self.check("remove_tree", path)
        super().remove_tree(path)

    def sync_dir(self, path: str) -> None:
        self.check("sync_dir", path)
        super().sync_dir(path)


class FaultyFile(OsFile):
    """A file of a `FaultyDisk`."""

    __slots__ = ("_disk",)

    def __init__(self, disk: FaultyDisk, path: str, flags: int) -> None:
        super().__init__(path, flags, disk._buffers)
        self._disk = disk

    def pread(self, size: int, offset: int) -> bytes:
        self._disk.check("pread", self.path)
        return super().pread(size, offset)

    def pread_nowait(self, size: int, offset: int) -> Buffer | None:
        return None if self._disk.cold else super().pread_nowait(size, offset)

    def send_nowait(self, socket: int, size: int, offset: int) -> int | None:
        return None if self._disk.cold else super().send_nowait(socket, size, offset)

    def pwrite(self, data: Buffer, offset: int) -> None:
        try:
            self._disk.check("pwrite", self.path)
        except OSError:
            super().pwrite(memoryview(data)[: len(data) // 2], offset)
            raise
        super().pwrite(data, offset)

    def truncate(self, size: int) -> None:
        self._disk.check("truncate", self.path)
        super().truncate(size)

    def sync(self) -> None:
        self._disk.check("sync", self.path)
        super().sync()
