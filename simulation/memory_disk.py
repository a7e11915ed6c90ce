"""An in-memory file system behind the interface of `storage/disk.py`, with an optional trace of its changes.

Files and directories are nodes, as inodes are: a rename moves a name, an open file keeps its node. Each change of a
node is an *effect*, one entry of the trace. `replace_file` and `remove_tree` are several, as on a real disk: a power
cut may fall between any two.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from storage.disk import Buffer
from storage.log.open_files import OpenFiles

PLENTY_BYTES = 1 << 40
WRITTEN_MS = 1_700_000_000_000


class FileNode:
    """A file's content, independent of its name."""

    __slots__ = ("data",)

    def __init__(self, data: Buffer = b"") -> None:
        self.data = bytearray(data)


class DirNode:
    """A directory's entries."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}


Node: TypeAlias = "FileNode | DirNode"


class Write(NamedTuple):
    """Bytes written to a file."""

    node: FileNode
    offset: int
    data: bytes


class Truncate(NamedTuple):
    """A file truncated or extended."""

    node: FileNode
    size: int


class FileSynced(NamedTuple):
    """A file or directory made durable."""

    node: Node


class SyncFailed(NamedTuple):
    """A failed sync of a file: pending pages may never reach the platter."""

    node: FileNode


class Linked(NamedTuple):
    """A file or directory created."""

    parent: DirNode
    name: str
    node: Node


class Unlinked(NamedTuple):
    """A name removed."""

    parent: DirNode
    name: str


class Renamed(NamedTuple):
    """A name changed within a directory; a file that had the new name is lost."""

    parent: DirNode
    name: str
    target: str
    node: Node


class Mark(NamedTuple):
    """Not an effect: the state that the workload knows at this point of the trace."""

    known: Any


Effect: TypeAlias = "Write | Truncate | FileSynced | SyncFailed | Linked | Unlinked | Renamed | Mark"


class MemoryFile:
    """An open file."""

    __slots__ = ("_disk", "_is_open", "_node", "path")

    def __init__(self, disk: MemoryDisk, node: FileNode, path: str) -> None:
        self._disk = disk
        self._node = node
        self._is_open = True
        self.path = path

    def _check_open(self) -> None:
        if not self._is_open:
            raise OSError(errno.EBADF, "the file is closed", self.path)

    def pread(self, size: int, offset: int) -> bytes:
        self._check_open()
        self._disk.before("pread", self.path)
        return bytes(self._node.data[offset : offset + size])

    def pread_nowait(self, size: int, offset: int) -> bytes | None:
        self._check_open()
        data = bytes(self._node.data[offset : offset + size])
        return data if len(data) == size else None

    def send_nowait(self, socket: int, size: int, offset: int) -> int | None:
        return None

    def pwrite(self, data: Buffer, offset: int) -> None:
        self._check_open()
        room = self._disk.room_for(len(data), self.path)
        if room < len(data):
            self._disk.write(self._node, memoryview(data)[:room], offset)
        self._disk.before("pwrite", self.path)
        self._disk.write(self._node, data, offset)

    def truncate(self, size: int) -> None:
        self._check_open()
        self._disk.before("truncate", self.path)
        self._disk.truncate(self._node, size)

    def sync(self) -> None:
        self._check_open()
        try:
            self._disk.before("sync", self.path)
        except OSError:
            self._disk.did(SyncFailed(self._node))
            raise
        self._disk.did(FileSynced(self._node))

    def size(self) -> int:
        self._check_open()
        return len(self._node.data)

    def close(self) -> None:
        self._is_open = False


class MemoryLock:
    """A lock without contention: no other process uses the disk."""

    def release(self) -> None:
        """Do nothing."""


class MemoryDisk:
    """A `Disk` over `root`, or empty; with `trace`, every effect is appended to it."""

    def __init__(self, root: DirNode | None = None, trace: list[Effect] | None = None) -> None:
        self.root = root or DirNode()
        self.trace = trace
        self.open_files = OpenFiles()

    # Overridden by disks with faults.

    def before(self, kind: str, path: str) -> None:
        """Raise OSError if this call is to fail."""

    def room_for(self, size: int, path: str) -> int:
        """Return how many bytes of a write are written if the call is about to fail."""
        return size

    # Effects.

    def did(self, effect: Effect) -> None:
        if self.trace is not None:
            self.trace.append(effect)

    def write(self, node: FileNode, data: Buffer, offset: int) -> None:
        if not len(data):
            return
        if offset > len(node.data):
            node.data += bytes(offset - len(node.data))
        node.data[offset : offset + len(data)] = data
        if self.trace is not None:
            self.trace.append(Write(node, offset, bytes(data)))

    def truncate(self, node: FileNode, size: int) -> None:
        if size == len(node.data):
            return
        del node.data[size:]
        node.data += bytes(size - len(node.data))
        self.did(Truncate(node, size))

    # The `Disk` protocol.

    def open_file(self, path: str, create: bool = False) -> MemoryFile:
        parent, name = self._place(path)
        node = parent.entries.get(name)
        self.before("create" if create and node is None else "open", path)
        if node is None:
            if not create:
                raise _missing(path)
            node = parent.entries[name] = FileNode()
            self.did(Linked(parent, name, node))
        if isinstance(node, DirNode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return MemoryFile(self, node, path)

    def read_file(self, path: str) -> bytes:
        self.before("read", path)
        node = self._find(path)
        if isinstance(node, DirNode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return bytes(node.data)

    def read_regular_file(self, path: str, max_bytes: int) -> bytes:
        data = self.read_file(path)
        if len(data) > max_bytes:
            raise OSError(errno.EFBIG, f"larger than {max_bytes} bytes", path)
        return data

    def replace_file(self, path: str, data: Buffer, sync: bool = True) -> None:
        file = self.open_file(path + ".tmp", create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        if sync:
            file.sync()
        self.rename(path + ".tmp", path)
        if sync:
            self.sync_dir(path.rpartition("/")[0])

    def rename(self, source: str, target: str) -> None:
        self.before("rename", source)
        parent, name = self._place(source)
        other, target_name = self._place(target)
        if parent is not other:
            raise NotImplementedError("renames from one directory to another")
        if name not in parent.entries:
            raise _missing(source)
        node, replaced = parent.entries[name], parent.entries.get(target_name)
        if replaced is node:
            return
        if isinstance(replaced, DirNode) and isinstance(node, FileNode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", target)
        if isinstance(replaced, FileNode) and isinstance(node, DirNode):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", target)
        if isinstance(replaced, DirNode) and replaced.entries:
            raise OSError(errno.ENOTEMPTY, "not empty", target)
        node = parent.entries[target_name] = parent.entries.pop(name)
        self.did(Renamed(parent, name, target_name, node))

    def remove(self, path: str) -> None:
        self.before("remove", path)
        with suppress(FileNotFoundError):
            parent, name = self._place(path)
            if isinstance(parent.entries.get(name), DirNode):
                raise IsADirectoryError(errno.EISDIR, "is a directory", path)
            self._unlink(parent, name)

    def remove_tree(self, path: str) -> None:
        self.before("remove_tree", path)
        with suppress(FileNotFoundError):
            for name, node in list(self._directory(path).entries.items()):
                if isinstance(node, DirNode):
                    self.remove_tree(f"{path}/{name}")
                else:
                    self.remove(f"{path}/{name}")
            self.before("remove", path)
            self._unlink(*self._place(path))

    def _unlink(self, parent: DirNode, name: str) -> None:
        if parent.entries.pop(name, None) is not None:
            self.did(Unlinked(parent, name))

    def make_dirs(self, path: str) -> None:
        node: Node = self.root
        for name in _parts(path):
            if isinstance(node, FileNode):
                raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
            found = node.entries.get(name)
            if found is None:
                self.before("make_dir", path)
                found = node.entries[name] = DirNode()
                self.did(Linked(node, name, found))
            node = found
        if isinstance(node, FileNode):
            raise FileExistsError(errno.EEXIST, "file exists", path)

    def list_dir(self, path: str) -> list[str]:
        return sorted(self._directory(path).entries)

    def exists(self, path: str) -> bool:
        with suppress(FileNotFoundError, NotADirectoryError):
            self._find(path)
            return True
        return False

    def is_dir(self, path: str) -> bool:
        return self.exists(path) and isinstance(self._find(path), DirNode)

    def file_size(self, path: str) -> int:
        node = self._find(path)
        return len(node.data) if isinstance(node, FileNode) else 0

    def modified_ms(self, path: str) -> int:
        self._find(path)
        return WRITTEN_MS

    def free_bytes(self, path: str) -> int:
        self._find(path)
        return PLENTY_BYTES

    def total_bytes(self, path: str) -> int:
        self._find(path)
        return 2 * PLENTY_BYTES

    def sync_dir(self, path: str) -> None:
        self.before("sync_dir", path)
        self.did(FileSynced(self._find(path)))

    def lock(self, path: str, *, writes_pid: bool = True) -> MemoryLock:
        self.open_file(path, create=True)
        return MemoryLock()

    # For tests.

    def files(self) -> dict[str, bytes]:
        """Return the content of every file by path."""
        return {path: bytes(node.data) for path, node in walk(self.root) if isinstance(node, FileNode)}

    def _find(self, path: str) -> Node:
        node: Node = self.root
        try:
            for name in path.split("/"):
                if name:
                    node = node.entries[name]  # type: ignore[union-attr]
        except AttributeError:  # a file has no entries
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path) from None
        except KeyError:
            raise _missing(path) from None
        return node

    def _directory(self, path: str) -> DirNode:
        node = self._find(path)
        if isinstance(node, FileNode):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return node

    def _place(self, path: str) -> tuple[DirNode, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name


def walk(root: DirNode, path: str = "") -> Iterator[tuple[str, Node]]:
    """Yield the path and node of everything below `root`."""
    for name, node in root.entries.items():
        yield f"{path}/{name}", node
        if isinstance(node, DirNode):
            yield from walk(node, f"{path}/{name}")


def _parts(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no such file or directory", path)
