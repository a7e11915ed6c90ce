"""Disks on which the n-th call fails, and one that tells which files are open."""

import errno
import os

from storage.disk import Buffer, OsDisk, OsFile

_NEEDS_SPACE = ("create", "replace", "pwrite")
_NEEDS_BLOCKS = ("replace", "pwrite")


class FaultyDisk(OsDisk):
    """The real disk, until a call of a kind is armed to fail: then it fails once, having done half of a write."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str]] = []
        self._armed: dict[str, tuple[int, int]] = {}
        self.full = False
        """While set, nothing more can be written: all that makes files or makes them longer fails."""
        self.blocks_full = False
        """While set, no file can become longer, but empty files can be made: how most file systems are full."""
        self.forbidden = ""
        """The path of a file that may not be opened."""
        self.cold = False
        """While set, nothing can be read without waiting for the device."""

    def arm(self, kind: str, code: int = errno.EIO, *, after: int = 0) -> None:
        """Let the call of `kind` after the next `after` ones fail with `code`."""
        self._armed[kind] = (after, code)

    def disarm(self, kind: str) -> bool:
        """Let no call of `kind` fail any more; tell whether one has."""
        return self._armed.pop(kind, None) is None

    def called(self, kind: str) -> list[str]:
        """Return the names of the files that calls of `kind` were for."""
        return [os.path.basename(path) for made, path in self.calls if made == kind]

    def check(self, kind: str, path: str) -> None:
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
        if "read" in self._armed:  # else no call to speak of: most tests are about what is changed
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
