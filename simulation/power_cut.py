"""The content of a disk after a power cut in a traced run: all that is durable, and an adversary's choice of the rest.

A cut falls after any prefix of the effects. All synced changes survive. Of the changes since a file's last sync:

    pages   each 4-KiB page of the file is as after any of the writes to it, or as before all of them, independently
            of the others: a subset of the writes in any order. It may also be torn: each of its 512-byte sectors as
            after one of the writes.
    size    any that the file has had since, also between the pages of one write: sizes come before or after the data.
            A page that the size covers and that was never written reads as zeros, or as the blocks' former content.

A failed sync makes nothing durable, and the kernel drops the pages that it could not write: they stay in memory,
count as clean, and a later successful sync does not write them ("fsyncgate"). Such a page has its old or its new
content on the platter until it is written again.

The model assumes powersafe overwrite, in SQLite's terms: an interrupted write changes no byte outside of the sectors
that it covers. A disk that garbles neighbouring sectors breaks the guarantees, and no test here detects that.

Of a directory's changes since its last sync, a prefix survives, as on journaling file systems, or any subset (btrfs,
when it syncs single files): creations and renames may be undone, and deleted files may reappear, the last ones
first. A rename is one change. A file whose name survived may have lost all its content.

How many changes survive varies between states, because bugs do: some need all but one page, others nearly none.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from random import Random
from typing import TypeAlias
from zlib import crc32

from simulation.memory_disk import (
    DirNode,
    Effect,
    FileNode,
    FileSynced,
    Linked,
    Mark,
    MemoryDisk,
    Node,
    Renamed,
    SyncFailed,
    Truncate,
    Unlinked,
    Write,
    walk,
)

PAGE_BYTES = 4096
SECTOR_BYTES = 512

NameChange: TypeAlias = Linked | Unlinked | Renamed
Change: TypeAlias = Write | Truncate | NameChange

_FATES = ("lost", "kept", "some")


class _File:
    """A file on the platter, and its pending writes."""

    __slots__ = ("_failed", "_stale", "data", "pending")

    def __init__(self, data: bytes = b"") -> None:
        self.data = data
        self.pending: list[Write | Truncate] = []
        self._failed = 0
        """Number of pending changes that a sync has failed to write."""
        self._stale: dict[int, list[bytes]] = {}
        """For each dropped page that counts as written: the content that the platter may have instead."""

    def content(self, count: int | None = None) -> bytes:
        """Return the content after the first `count` pending changes, or after all."""
        if not self.pending:
            return self.data
        data = bytearray(self.data)
        for change in self.pending[:count]:
            _apply(data, change)
        return bytes(data)

    def sync(self) -> None:
        """Make the pending changes durable, except for the pages that a failed sync has dropped."""
        former, data = self.data, bytearray(self.data)
        dropped: set[int] = set()
        for number, change in enumerate(self.pending):
            touched = _touched(change, len(data))
            _apply(data, change)
            if number < self._failed:
                dropped.update(touched)
            else:
                dropped.difference_update(touched)
                for page in touched:
                    self._stale.pop(page, None)
        for page in dropped:
            self._stale.setdefault(page, []).append(former[page * PAGE_BYTES : (page + 1) * PAGE_BYTES])
        self.data = bytes(data)
        self.pending.clear()
        self._failed = 0

    def sync_failed(self) -> None:
        """Drop the pages of all pending changes."""
        self._failed = len(self.pending)

    def without_dropped(self, content: bytes, random: Random) -> bytes:
        """Return `content` with some of the dropped pages in their old state, unless they were written again since."""
        if not self._stale:
            return content
        made = bytearray(content)
        for page, versions in self._stale.items():
            place = slice(page * PAGE_BYTES, (page + 1) * PAGE_BYTES)
            now = content[place]
            if now == self.data[place] and random.random() < 0.5:
                made[place] = random.choice(versions)[: len(now)].ljust(len(now), b"\0")
        return bytes(made)

    def torn(self, random: Random) -> bytes:
        """Return each page as of a random moment, truncated to the size of another."""
        data = bytearray(self.data)
        sizes = [len(data)]
        pages = [[page] for page in _pages(data)]
        for change in self.pending:
            before = len(data)
            _apply(data, change)
            for number in _touched(change, before):
                while number >= len(pages):
                    pages.append([b""])
                pages[number].append(bytes(data[number * PAGE_BYTES : (number + 1) * PAGE_BYTES]))
            sizes += range(-(-before // PAGE_BYTES) * PAGE_BYTES, len(data), PAGE_BYTES)
            sizes.append(len(data))
        size = random.choice(sizes)
        tearing = random.random() < 0.3
        blocks = _unwritten_blocks(data)
        kept = bytearray()
        for versions in pages:
            kept += _page([version or blocks for version in versions], tearing, random)
        if random.random() < 0.1:
            size = max(size - size % SECTOR_BYTES, min(sizes))
        return bytes(kept[:size]) + bytes(max(0, size - len(kept)))

    def with_changes(self, kept: Container[int]) -> bytes:
        """Return the content if only the pending changes with these `id`s reached the platter, page by page."""
        made, now = bytearray(self.data), bytearray(self.data)
        size = len(made)
        for change in self.pending:
            touched = _touched(change, len(now))
            _apply(now, change)
            if id(change) in kept:
                size = len(now)
                for page in touched:
                    place = slice(page * PAGE_BYTES, (page + 1) * PAGE_BYTES)
                    made += bytes(max(0, place.start - len(made)))
                    made[place] = now[place]
        return bytes(made[:size]) + bytes(max(0, size - len(made)))


class _Directory:
    """A directory on the platter, and the pending changes of its entries."""

    __slots__ = ("entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.pending: list[NameChange] = []

    def names(self, chosen: Iterable[NameChange]) -> dict[str, Node]:
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
    """The durable state of a disk, starting as `disk` is now; `follow` its trace."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._root = disk.root
        self._files: dict[FileNode, _File] = {}
        self._directories: dict[DirNode, _Directory] = {}
        self._known(disk.root)
        for _, node in walk(disk.root):
            self._known(node)

    def follow(self, effect: Effect) -> None:
        """Apply the next effect."""
        if isinstance(effect, (Write, Truncate)):
            self._files[effect.node].pending.append(effect)
        elif isinstance(effect, FileSynced):
            if isinstance(effect.node, FileNode):
                self._files[effect.node].sync()
            else:
                self._directories[effect.node].sync()
        elif isinstance(effect, SyncFailed):
            self._files[effect.node].sync_failed()
        elif not isinstance(effect, Mark):
            if isinstance(effect, Linked):
                self._new(effect.node)
            self._directories[effect.parent].pending.append(effect)

    def cut(self, random: Random) -> MemoryDisk:
        """Return the disk after a power cut now, chosen at random."""
        fate = random.choices(_FATES, (1, 1, 8))[0]
        subset = random.random() < 0.4
        return self._disk(
            lambda directory: _chosen(directory.pending, fate, subset, random),
            lambda file: _content(file, fate, random),
        )

    def unsynced(self) -> set[int]:
        """Return the `id`s of the pending changes."""
        pending = {id(change) for file in self._files.values() for change in file.pending}
        return pending | {id(change) for directory in self._directories.values() for change in directory.pending}

    def cut_with(self, kept: Sequence[Change]) -> MemoryDisk:
        """Return the disk after a power cut now if only these unsynced changes reached the platter."""
        ids = {id(change) for change in kept}
        return self._disk(
            lambda directory: [change for change in directory.pending if id(change) in ids],
            lambda file: file.with_changes(ids),
        )

    def _disk(
        self, names: Callable[[_Directory], Iterable[NameChange]], content: Callable[[_File], bytes]
    ) -> MemoryDisk:
        def made_of(node: DirNode) -> DirNode:
            made = DirNode()
            state = self._directories[node]
            for name, child in state.names(names(state)).items():
                made.entries[name] = (
                    made_of(child) if isinstance(child, DirNode) else FileNode(content(self._files[child]))
                )
            return made

        return MemoryDisk(made_of(self._root))

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


def _chosen(pending: list[NameChange], fate: str, subset: bool, random: Random) -> list[NameChange]:
    if not pending or fate == "kept":
        return pending
    if fate == "lost":
        return []
    kept = random.choice((0, 1, random.random()))
    if subset:
        deleted = [change for change in pending if is_deletion(change)]
        happened = deleted[: round(kept * len(deleted))]
        return [change for change in pending if (change in happened if is_deletion(change) else random.random() < kept)]
    return pending[: round(kept * len(pending))]


def is_deletion(change: Change) -> bool:
    """Return whether a name is removed, or renamed for deletion."""
    return isinstance(change, Unlinked) or (isinstance(change, Renamed) and change.target.endswith(".deleted"))


def _content(file: _File, fate: str, random: Random) -> bytes:
    return file.without_dropped(_as_if_synced(file, fate, random), random)


def _as_if_synced(file: _File, fate: str, random: Random) -> bytes:
    """Return the content as if every sync had written all pending changes."""
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


def _touched(change: Write | Truncate, size: int) -> range:
    """Return the numbers of the pages that a change to a file of `size` bytes touches."""
    first = (change.offset if isinstance(change, Write) else min(change.size, size)) // PAGE_BYTES
    last = (change.offset + len(change.data) if isinstance(change, Write) else max(change.size, size)) - 1
    return range(first, last // PAGE_BYTES + 1)


def _unwritten_blocks(data: bytearray) -> bytes:
    """Return the content of a page that was never written: zeros, or bytes of deleted files.

    Never whole batches: a file system that exposes another file's data breaks every log of Kafka's format.
    """
    blocks = Random(crc32(data))  # seeded by the content, so that other random choices of the cut do not depend on it
    return blocks.randbytes(PAGE_BYTES) if blocks.random() < 0.5 else bytes(PAGE_BYTES)


def _pages(data: bytearray) -> list[bytes]:
    return [bytes(data[at : at + PAGE_BYTES]) for at in range(0, len(data), PAGE_BYTES)]


def _page(versions: list[bytes], tearing: bool, random: Random) -> bytes:
    """Return one version of a page, or with `tearing` each sector of one, at full length."""
    if len(versions) == 1:
        return versions[0].ljust(PAGE_BYTES, b"\0")
    if not tearing:
        return random.choice(versions).ljust(PAGE_BYTES, b"\0")
    return b"".join(
        random.choice(versions)[at : at + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0")
        for at in range(0, PAGE_BYTES, SECTOR_BYTES)
    )
