"""What a power cut may leave of a traced run: the durable part, and of the rest whatever the adversary likes.

A cut falls after any prefix of the effects. What a sync has covered is there. Of what came after a file's last sync:

    pages   each 4-KiB page of the file is as it was after any of the writes to it, or before all of them, regardless
            of the others: a subset of the writes in any order. It may also be torn: each of its 512-byte sectors as it
            was after one of them.
    size    any that the file has had since, also between the pages of one write: sizes come before or after the data,
            and data that was never written reads as zeros.

Of a directory's names since its last sync, a prefix of the changes is there, as journaling file systems leave them, or
any subset (btrfs, when it syncs single files): creations and renames that did not happen, and files that were not
deleted, the last ones first. A rename is one change. The file under a name that came through may have lost all its
content nonetheless.

How wild a state is differs from state to state, because bugs do: some need all but one page, others nearly nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from tests.crash.memory_disk import (
    DirNode,
    Effect,
    FileNode,
    Linked,
    Mark,
    MemoryDisk,
    Node,
    Renamed,
    Synced,
    Truncate,
    Unlinked,
    Write,
    walk,
)

PAGE_BYTES = 4096
SECTOR_BYTES = 512

_FATES = ("lost", "kept", "some")


class _File:
    """A file on the platter, and the writes that are on their way there."""

    __slots__ = ("data", "pending")

    def __init__(self, data: bytes = b"") -> None:
        self.data = data
        self.pending: list[Write | Truncate] = []

    def content(self, count: int | None = None) -> bytes:
        """Return the content with the first `count` of the pending changes, or all."""
        if not self.pending:
            return self.data
        data = bytearray(self.data)
        for change in self.pending[:count]:
            _apply(data, change)
        return bytes(data)

    def sync(self) -> None:
        self.data = self.content()
        self.pending.clear()

    def torn(self, random: Random) -> bytes:
        """Return each page as of another moment, cut at a size of yet another."""
        data = bytearray(self.data)
        sizes = [len(data)]
        pages = [[page] for page in _pages(data)]
        for change in self.pending:
            before = len(data)
            _apply(data, change)
            first = (change.offset if isinstance(change, Write) else min(change.size, before)) // PAGE_BYTES
            last = (change.offset + len(change.data) if isinstance(change, Write) else max(change.size, before)) - 1
            for number in range(first, last // PAGE_BYTES + 1):
                while number >= len(pages):
                    pages.append([b""])
                pages[number].append(bytes(data[number * PAGE_BYTES : (number + 1) * PAGE_BYTES]))
            sizes += range(-(-before // PAGE_BYTES) * PAGE_BYTES, len(data), PAGE_BYTES)
            sizes.append(len(data))
        size = random.choice(sizes)
        tearing = random.random() < 0.3
        kept = bytearray()
        for versions in pages:
            kept += _page(versions, tearing, random)
        if random.random() < 0.1:
            size = max(size - size % SECTOR_BYTES, min(sizes))
        return bytes(kept[:size]) + bytes(max(0, size - len(kept)))


class _Directory:
    """A directory on the platter, and the changes to its names that are on their way there."""

    __slots__ = ("entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.pending: list[Linked | Unlinked | Renamed] = []

    def names(self, chosen: Iterable[Linked | Unlinked | Renamed]) -> dict[str, Node]:
        entries = dict(self.entries)
        for change in chosen:
            if isinstance(change, Linked):
                entries[change.name] = change.node
            elif isinstance(change, Unlinked):
                entries.pop(change.name, None)
            else:
                if entries.get(change.name) is change.node:
                    del entries[change.name]
                entries[change.target] = change.node
        return entries

    def sync(self) -> None:
        self.entries = self.names(self.pending)
        self.pending.clear()


class Platter:
    """What has reached the platter of a disk since it was like `disk` is now; `follow` its trace."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._root = disk.root
        self._files: dict[FileNode, _File] = {}
        self._directories: dict[DirNode, _Directory] = {}
        self._known(disk.root)
        for _, node in walk(disk.root):
            self._known(node)

    def follow(self, effect: Effect) -> None:
        """Take in the next effect."""
        if isinstance(effect, Write | Truncate):
            self._files[effect.node].pending.append(effect)
        elif isinstance(effect, Synced):
            if isinstance(effect.node, FileNode):
                self._files[effect.node].sync()
            else:
                self._directories[effect.node].sync()
        elif not isinstance(effect, Mark):
            if isinstance(effect, Linked):
                self._new(effect.node)
            self._directories[effect.parent].pending.append(effect)

    def cut(self, random: Random) -> MemoryDisk:
        """Return a disk as a power cut now may leave it."""
        fate = random.choices(_FATES, (1, 1, 8))[0]
        subset = random.random() < 0.4
        return MemoryDisk(self._directory(self._root, fate, subset, random))

    def _directory(self, node: DirNode, fate: str, subset: bool, random: Random) -> DirNode:
        state = self._directories[node]
        made = DirNode()
        for name, child in state.names(_chosen(state.pending, fate, subset, random)).items():
            if isinstance(child, DirNode):
                made.entries[name] = self._directory(child, fate, subset, random)
            else:
                made.entries[name] = FileNode(_content(self._files[child], fate, random))
        return made

    def _known(self, node: Node) -> None:
        if isinstance(node, FileNode):
            self._files[node] = _File(bytes(node.data))
        else:
            self._directories[node] = known = _Directory()
            known.entries = dict(node.entries)

    def _new(self, node: Node) -> None:
        if isinstance(node, FileNode):
            self._files[node] = _File()
        else:
            self._directories[node] = _Directory()


def _chosen(
    pending: list[Linked | Unlinked | Renamed], fate: str, subset: bool, random: Random
) -> list[Linked | Unlinked | Renamed]:
    if not pending or fate == "kept":
        return pending
    if fate == "lost":
        return []
    kept = random.choice((0, 1, random.random()))
    if subset:
        deleted = [change for change in pending if _is_deletion(change)]
        happened = deleted[: round(kept * len(deleted))]
        return [
            change for change in pending if (change in happened if _is_deletion(change) else random.random() < kept)
        ]
    return pending[: round(kept * len(pending))]


def _is_deletion(change: Linked | Unlinked | Renamed) -> bool:
    return isinstance(change, Unlinked) or (isinstance(change, Renamed) and change.target.endswith(".deleted"))


def _content(file: _File, fate: str, random: Random) -> bytes:
    if not file.pending or fate == "lost":
        return file.data
    if fate == "kept":
        return file.content()
    how = random.randrange(5)
    if how == 0:
        return file.data
    if how == 1:
        return file.content()
    if how == 2:
        return file.content(random.randrange(len(file.pending) + 1))
    return file.torn(random)


def _apply(data: bytearray, change: Write | Truncate) -> None:
    if isinstance(change, Write):
        end = change.offset + len(change.data)
        data += bytes(max(0, change.offset - len(data)))
        data[change.offset : end] = change.data
    else:
        del data[change.size :]
        data += bytes(change.size - len(data))


def _pages(data: bytearray) -> list[bytes]:
    return [bytes(data[at : at + PAGE_BYTES]) for at in range(0, len(data), PAGE_BYTES)]


def _page(versions: list[bytes], tearing: bool, random: Random) -> bytes:
    """Return one version of a page, or with `tearing` each sector of one, in full length."""
    if len(versions) == 1:
        return versions[0].ljust(PAGE_BYTES, b"\0")
    if not tearing:
        return random.choice(versions).ljust(PAGE_BYTES, b"\0")
    return b"".join(
        random.choice(versions)[at : at + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0")
        for at in range(0, PAGE_BYTES, SECTOR_BYTES)
    )
