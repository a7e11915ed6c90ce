# ruff: noqa: D102 - the protocols document the methods
"""The disk seam: the broker opens, writes, syncs and renames files only here.

The rest of storage uses the protocols `Disk` and `File`; `OsDisk` implements them, and so does a simulation. A `File`
closes its descriptor when its last reference is dropped, so a segment can be deleted while a slow fetch still sends
from it. Failed calls are not retried: after a failed fsync the kernel may have dropped the pages, so the caller takes
the data directory offline.
"""

import errno
import fcntl
import os
import re
import stat
from contextlib import suppress
from typing import Protocol

from protocol.buffer_pool import BufferPool
from storage.log.open_files import OpenFiles

Buffer = bytes | bytearray | memoryview

_NUMBER = re.compile(r"\[Errno -?\d+\] ")
_OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT)
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
_FILE_MODE = 0o644
_READ_BYTES = 64 * 1024
_ONE_BYTE = [bytearray(1)]
_STRETCH_BYTES = 128 * 1024  # Linux's default read-ahead


class AlreadyLocked(Exception):  # noqa: N818 - a condition, not a malfunction
    """Another process holds the lock; `pid` is the content of the lock file, None if that cannot be read."""

    def __init__(self, path: str, pid: int | None) -> None:
        super().__init__(f"{path} is locked by process {pid if pid is not None else 'unknown'}")
        self.path = path
        self.pid = pid


class File(Protocol):
    """An open file, read and written at explicit positions."""

    path: str

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to `size` bytes from `offset`; fewer only at the end of the file."""

    def pread_nowait(self, size: int, offset: int) -> Buffer | None:
        """Return what `pread` would; None if that might wait for the device."""

    def send_nowait(self, socket: int, size: int, offset: int) -> int | None:
        """Send up to `size` bytes from `offset` through a socket's descriptor, without copying them.

        Return how many were sent, fewer only if the socket is full or the file ends. Return None if that fails, or
        might wait for the device: the caller then reads and writes the bytes, which raises any error.
        """

    def pwrite(self, data: Buffer, offset: int) -> None:
        """Write all of `data` at `offset`, or raise OSError with any part of it written."""

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""

    def sync(self) -> None:
        """Make the file's content and length durable; may run in a thread."""

    def size(self) -> int:
        """Return the file's length in bytes."""

    def close(self) -> None:
        """Close the file now, not when the last reference is dropped."""


class Lock(Protocol):
    """A held lock."""

    def release(self) -> None:
        """Release the lock."""


class Disk(Protocol):
    """A file system. Every method raises OSError as `os` does; FileNotFoundError where a path must exist."""

    open_files: OpenFiles
    """The files on this disk that stay open for their next use."""

    def open_file(self, path: str, create: bool = False) -> File:
        """Open a file for reading and writing; with `create`, create an empty one if there is none."""

    def read_file(self, path: str) -> bytes:
        """Return the whole content."""

    def read_regular_file(self, path: str, max_bytes: int) -> bytes:
        """Return the whole content of a file that a setting names; OSError if it has more than `max_bytes`.

        OSError for a named pipe, a socket or a device too, without waiting for it.
        """

    def replace_file(self, path: str, data: Buffer, sync: bool = True) -> None:
        """Replace the file by one with content `data`, atomically; with `sync`, durably."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory, replacing a file of the target's name."""

    def remove(self, path: str) -> None:
        """Delete a file; a missing one is no error."""

    def remove_tree(self, path: str) -> None:
        """Delete a directory with all of its content; a missing one is no error."""

    def make_dirs(self, path: str) -> None:
        """Create a directory and its missing parents."""

    def list_dir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""

    def exists(self, path: str) -> bool:
        """Return whether the path is a file or directory."""

    def is_dir(self, path: str) -> bool:
        """Return whether the path is a directory."""

    def file_size(self, path: str) -> int:
        """Return a file's length in bytes."""

    def modified_ms(self, path: str) -> int:
        """Return when a file was last written, in ms of the wall clock."""

    def free_bytes(self, path: str) -> int:
        """Return the free bytes of the file system that `path` is on."""

    def total_bytes(self, path: str) -> int:
        """Return the size in bytes of the file system that `path` is on."""

    def sync_dir(self, path: str) -> None:
        """Make creations, renames and deletions in a directory durable."""

    def lock(self, path: str, *, writes_pid: bool = True) -> Lock:
        """Lock this path; raise `AlreadyLocked` if another process holds the lock.

        A broker writes its process id there: `barnabas up` stops the processes whose ids are in its brokers' data.
        """


def reason(error: BaseException) -> str:
    """Return an error's text; for an OSError its path and text, without the number.

    asyncio joins the texts, with their numbers, when several addresses of a name failed.
    """
    if not isinstance(error, OSError):
        return str(error)
    text = error.strerror or _NUMBER.sub("", str(error))
    return f"{error.filename}: {text}" if error.filename else text


def _check_regular(status: os.stat_result, path: str) -> None:
    """Raise OSError for a pipe, a socket, a device or a directory."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)


def out_of_space(error: OSError) -> bool:
    """Return whether a write failed because the disk is full, which leaves earlier writes intact."""
    return error.errno in _OUT_OF_SPACE


def remedy(error: OSError) -> str:
    """Return advice for the user about a file or directory that cannot be written."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return "give this user write access to it (see ls -l and lsattr)"
    if error.errno == errno.EROFS:
        return "mount its file system for writing"
    if error.errno == errno.EIO:
        return "find the cause with dmesg, and repair or replace the disk"
    return "check the path and its file system with ls -ld, findmnt -T and dmesg"


def out_of_files(error: OSError) -> bool:
    """Return whether a file could not be opened for lack of descriptors, which is not a fault of the disk."""
    return error.errno in _OUT_OF_FILES


def is_locked(path: str) -> bool:
    """Return whether another process holds the lock of this path; False if the file is missing or unreadable.

    A shared lock conflicts with a broker's exclusive one and, unlike that, needs no write access.
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

    def __init__(self, path: str, flags: int, buffers: BufferPool) -> None:
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
        """Return whether the page cache has the range, probing one byte of each 128 KiB.

        The kernel reads and evicts more than that at a time.
        """
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
        if self._fd < 0:  # os.fdatasync would raise ValueError, which callers do not handle as a failed sync
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        _sync(self._fd)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self, _close: object = os.close) -> None:
        # Bound as a default: the module's names may be gone at interpreter exit.
        if self._fd >= 0:
            _close(self._fd)  # type: ignore[operator]


_HAS_NOWAIT = hasattr(os, "RWF_NOWAIT")
# fdatasync also makes the length of an appended file durable; macOS has only fsync.
_sync = getattr(os, "fdatasync", os.fsync)


class OsLock:
    """A locked file; unlocked by `release` or when the process ends in any way."""

    def __init__(self, file: OsFile) -> None:
        self._file = file

    def release(self) -> None:
        self._file.close()


class OsDisk:
    """The `Disk` of the operating system."""

    def __init__(self, *, read_only: bool = False) -> None:
        """With `read_only`, open files for reading only: enough for files of another user or on a read-only disk."""
        self._buffers = BufferPool(512 * 1024, kept=8)
        self._access = os.O_RDONLY if read_only else os.O_RDWR
        self.open_files = OpenFiles()

    def open_file(self, path: str, create: bool = False) -> OsFile:
        return OsFile(path, self._access | (os.O_CREAT if create else 0), self._buffers)

    def read_file(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            data = os.read(fd, size + 1)  # one read up to the end of file: a start reads three small files per log
        except OSError as error:
            error.filename = path
            raise
        finally:
            os.close(fd)
        if len(data) == size:
            return data
        with open(path, "rb", buffering=0) as file:
            return file.read()

    def read_regular_file(self, path: str, max_bytes: int) -> bytes:
        _check_regular(os.stat(path), path)  # opening a device may have effects
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with open(fd, "rb", buffering=0) as file:
            _check_regular(os.fstat(fd), path)  # it may have been replaced meanwhile
            data = bytearray()
            while part := file.read(min(max_bytes + 1 - len(data), _READ_BYTES)):
                data += part
        if len(data) > max_bytes:
            raise OSError(errno.EFBIG, f"larger than {max_bytes} bytes", path)
        return bytes(data)

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
        import shutil  # rarely needed, and slow to import

        with suppress(FileNotFoundError):
            shutil.rmtree(path)

    def make_dirs(self, path: str) -> None:
        try:
            os.mkdir(path)  # usually only the last component is missing
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

    def lock(self, path: str, *, writes_pid: bool = True) -> OsLock:
        file = OsFile(path, os.O_RDWR | os.O_CREAT, self._buffers)
        fd = file._fd
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Apache Kafka uses the other kind of lock on this file: each program refuses the other's directory.
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            holder = file.pread(32, 0).strip()
            raise AlreadyLocked(path, int(holder) if holder.isdigit() else None) from None
        try:
            file.truncate(0)
            if writes_pid:
                file.pwrite(b"%d\n" % os.getpid(), 0)
        except OSError as error:
            if not out_of_space(error):  # the pid is only informative: a full disk can be locked without it
                raise
        return OsLock(file)


class UnsyncedDisk(OsDisk):
    """The disk of the operating system, without syncs: for data that need not survive a power failure."""

    def open_file(self, path: str, create: bool = False) -> OsFile:
        return _UnsyncedFile(path, self._access | (os.O_CREAT if create else 0), self._buffers)

    def replace_file(self, path: str, data: Buffer, sync: bool = True) -> None:  # noqa: ARG002
        super().replace_file(path, data, sync=False)

    def sync_dir(self, path: str) -> None:
        pass


class _UnsyncedFile(OsFile):
    __slots__ = ()

    def sync(self) -> None:
        pass
