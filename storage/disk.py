# ruff: noqa: D102 - the protocols say what each method does, once
"""The seam between storage and the machine: every open, write, fsync and rename of the broker happens here.

`Disk` and `File` are what the rest of storage is written against; `OsDisk` is the real one, and a simulation
brings its own. A `File` closes its descriptor when the last reference to it goes, so a segment can be deleted
while a slow fetch still sends from it. Nothing here retries: after a failed fsync the kernel may have dropped
the pages, and only the caller can say what that means (the directory goes offline).
"""

import errno
import fcntl
import os
import re
from contextlib import suppress
from typing import Protocol

from storage.log.open_files import OpenFiles
from storage.log.read_buffers import ReadBuffers

Buffer = bytes | bytearray | memoryview

_NUMBER = re.compile(r"\[Errno -?\d+\] ")
_OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT)
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
_FILE_MODE = 0o644
_ONE_BYTE = [bytearray(1)]
_STRETCH_BYTES = 128 * 1024  # what Linux reads ahead if nobody tells it otherwise


class AlreadyLocked(Exception):  # noqa: N818 - a state of affairs, not a malfunction
    """Another process holds the lock; `pid` is what it wrote there, or None if that cannot be read."""

    def __init__(self, path: str, pid: int | None) -> None:
        super().__init__(f"{path} is locked by process {pid if pid is not None else 'unknown'}")
        self.path = path
        self.pid = pid


class File(Protocol):
    """An open file, read and written at given positions."""

    path: str

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to `size` bytes from `offset`; fewer only at the end of the file."""
        ...

    def pread_nowait(self, size: int, offset: int) -> Buffer | None:
        """Return what `pread` would, or None if that would wait for the device or cannot be told."""
        ...

    def send_nowait(self, socket: int, size: int, offset: int) -> int | None:
        """Send up to `size` bytes from `offset` through a socket's descriptor, without copying them.

        Return how many it took, fewer only if it is full or the file ends; None if that would wait for the device, or
        cannot be told or done: reading and writing then tells why.
        """
        ...

    def pwrite(self, data: Buffer, offset: int) -> None:
        """Write all of `data` at `offset`, or raise OSError with any part of it written."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        ...

    def sync(self) -> None:
        """Make the file's content and length durable; may run in a thread."""
        ...

    def size(self) -> int:
        """Return the file's length in bytes."""
        ...

    def close(self) -> None:
        """Close it now instead of when the last reference goes."""
        ...


class Lock(Protocol):
    """A held lock."""

    def release(self) -> None:
        """Give it up."""
        ...


class Disk(Protocol):
    """A file system. Every method raises OSError as `os` does; FileNotFoundError where a path must exist."""

    open_files: OpenFiles
    """The files on it that are kept open for their next use."""

    def open_file(self, path: str, create: bool = False) -> File:
        """Open for reading and writing; with `create`, make an empty file if there is none."""
        ...

    def read_file(self, path: str) -> bytes:
        """Return the whole content."""
        ...

    def replace_file(self, path: str, data: Buffer, sync: bool = True) -> None:
        """Put `data` in the place of the file in one step; with `sync`, durably so."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory, replacing a file of the target's name."""
        ...

    def remove(self, path: str) -> None:
        """Delete a file; that it is gone already is no error."""
        ...

    def remove_tree(self, path: str) -> None:
        """Delete a directory with all that is in it; that it is gone already is no error."""
        ...

    def make_dirs(self, path: str) -> None:
        """Create a directory and its parents where they are missing."""
        ...

    def list_dir(self, path: str) -> list[str]:
        """Return the sorted names in a directory."""
        ...

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or directory."""
        ...

    def is_dir(self, path: str) -> bool:
        """Tell whether there is a directory."""
        ...

    def file_size(self, path: str) -> int:
        """Return a file's length in bytes."""
        ...

    def modified_ms(self, path: str) -> int:
        """Return when a file was last written, in ms of the wall clock."""
        ...

    def free_bytes(self, path: str) -> int:
        """Return how much may still be written to the file system that `path` is on."""
        ...

    def total_bytes(self, path: str) -> int:
        """Return how much the file system that `path` is on holds when it is full."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make creations, renames and deletions in a directory durable."""
        ...

    def lock(self, path: str) -> Lock:
        """Take the lock of this path and write the process's id there, or raise `AlreadyLocked`."""
        ...


def reason(error: BaseException) -> str:
    """Return an error's text; an OSError's behind the path that it is about, and without its number.

    asyncio joins the texts, with their numbers, where several addresses of a name failed.
    """
    if not isinstance(error, OSError):
        return str(error)
    text = error.strerror or _NUMBER.sub("", str(error))
    return f"{error.filename}: {text}" if error.filename else text


def out_of_space(error: OSError) -> bool:
    """Tell whether a write failed for want of room, which harms nothing that was written before."""
    return error.errno in _OUT_OF_SPACE


def remedy(error: OSError) -> str:
    """Return what the user can do about a file or directory that cannot be written."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return "give this user write access to it (see ls -l and lsattr)"
    if error.errno == errno.EROFS:
        return "mount its file system for writing"
    where = " with dmesg" if error.errno == errno.EIO else ""
    return f'find the cause{where} (OPERATIONS.md, "A disk that cannot be written")'


def out_of_files(error: OSError) -> bool:
    """Tell whether a file could not be opened for want of descriptors, which says nothing of the disk."""
    return error.errno in _OUT_OF_FILES


def is_locked(path: str) -> bool:
    """Return whether another process holds the lock of this path; False if the file is missing or unreadable.

    Shared locks conflict with the exclusive ones of a broker and, unlike these, need no write access.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    finally:
        os.close(fd)
    return False


class OsFile:
    """A `File` of the operating system."""

    __slots__ = ("_buffers", "_fd", "path")

    def __init__(self, path: str, flags: int, buffers: ReadBuffers) -> None:
        self._fd = -1
        self._buffers = buffers
        self.path = path
        self._fd = os.open(path, flags | os.O_CLOEXEC, _FILE_MODE)

    def pread(self, size: int, offset: int) -> bytes:
        return os.pread(self._fd, size, offset)

    def pread_nowait(self, size: int, offset: int) -> Buffer | None:
        if not _HAS_NOWAIT:
            return None
        buffer = self._buffers.take(size)
        try:
            read = os.preadv(self._fd, [buffer], offset, os.RWF_NOWAIT)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL):
                return None
            raise
        return buffer if read == size else None

    def send_nowait(self, socket: int, size: int, offset: int) -> int | None:
        if not self._is_in_memory(size, offset):
            return None
        try:
            return os.sendfile(socket, self._fd, offset, size)
        except BlockingIOError:
            return 0
        except OSError:
            return None

    def _is_in_memory(self, size: int, offset: int) -> bool:
        """Ask for a byte of each stretch: the system reads, and forgets, files by more than one stretch at a time."""
        if not _HAS_NOWAIT:
            return False
        stretches = range(offset, offset + size, _STRETCH_BYTES)
        try:
            return all(os.preadv(self._fd, _ONE_BYTE, at, os.RWF_NOWAIT) for at in stretches)
        except OSError:
            return False

    def pwrite(self, data: Buffer, offset: int) -> None:
        size = len(data)
        written = os.pwrite(self._fd, data, offset)
        while written < size:
            step = os.pwrite(self._fd, memoryview(data)[written:], offset + written)
            if step == 0:
                raise OSError(errno.EIO, "nothing was written", self.path)
            written += step

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        if self._fd < 0:  # os.fdatasync would raise ValueError, which no caller takes for a failed sync
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        _sync(self._fd)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self, _close: object = os.close) -> None:
        # Bound as a default because the module's names may be gone when the interpreter exits.
        if self._fd >= 0:
            _close(self._fd)  # type: ignore[operator]


_HAS_NOWAIT = hasattr(os, "RWF_NOWAIT")
# The length of an appended file is among what fdatasync makes durable; macOS has only fsync.
_sync = getattr(os, "fdatasync", os.fsync)


class OsLock:
    """A locked file; unlocked when released or when the process ends in whatever way."""

    def __init__(self, file: OsFile) -> None:
        self._file = file

    def release(self) -> None:
        self._file.close()


class OsDisk:
    """The `Disk` of the operating system."""

    def __init__(self, *, read_only: bool = False) -> None:
        """With `read_only`, open files for reading only: enough for what another user owns or cannot be written."""
        self._buffers = ReadBuffers()
        self._access = os.O_RDONLY if read_only else os.O_RDWR
        self.open_files = OpenFiles()

    def open_file(self, path: str, create: bool = False) -> OsFile:
        return OsFile(path, self._access | (os.O_CREAT if create else 0), self._buffers)

    def read_file(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            data = os.read(fd, size + 1)  # in one go, with the end: a start reads three small files of each log
        except OSError as error:
            error.filename = path
            raise
        finally:
            os.close(fd)
        if len(data) == size:
            return data
        with open(path, "rb", buffering=0) as file:
            return file.read()

    def replace_file(self, path: str, data: Buffer, sync: bool = True) -> None:
        temporary = path + ".tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
        try:
            written = os.write(fd, data)
            while written < len(data):
                written += os.write(fd, memoryview(data)[written:])
            if sync:
                _sync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
        if sync:
            self.sync_dir(os.path.dirname(path))

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        import shutil  # seldom needed, and slow to load

        with suppress(FileNotFoundError):
            shutil.rmtree(path)

    def make_dirs(self, path: str) -> None:
        try:
            os.mkdir(path)  # mostly nothing else is missing
        except (FileExistsError, FileNotFoundError):
            os.makedirs(path, exist_ok=True)

    def list_dir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def file_size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def free_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def total_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize

    def sync_dir(self, path: str) -> None:
        fd = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> OsLock:
        file = OsFile(path, os.O_RDWR | os.O_CREAT, self._buffers)
        fd = file._fd
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Apache Kafka takes the other kind of lock on this file, so each refuses the other's directory.
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            holder = file.pread(32, 0).strip()
            raise AlreadyLocked(path, int(holder) if holder.isdigit() else None) from None
        try:
            file.truncate(0)
            file.pwrite(b"%d\n" % os.getpid(), 0)
        except OSError as error:
            if not out_of_space(error):  # the id is only for people: a full disk can be locked without it
                raise
        return OsLock(file)
