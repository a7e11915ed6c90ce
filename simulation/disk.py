"""A machine's disk: synced data lasts, unsynced data may be lost, torn or reordered, and any call may fail.

It is based on `memory_disk.py`: a dying process leaves every byte that it wrote; a `power_cut` leaves what `Platter`
(`power_cut.py`) makes of the bytes since the last syncs, even between two operations of one callback. In addition,
calls fail on demand, reads may have to wait for the device, syncs may be slow, one directory may fail while another
works, and bytes may leave through a socket's descriptor as with the kernel's sendfile.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Collection, Iterable
from random import Random
from zlib import crc32

from simulation.loop import Ended, Loop, Trace, Worker
from simulation.memory_disk import Effect, FileNode, FileSynced, MemoryDisk, MemoryFile, Write
from simulation.network import Network
from simulation.power_cut import Platter

_CHANGES = frozenset({"create", "pwrite", "make_dir", "rename", "remove", "truncate", "sync", "sync_dir"})
_NEEDS_SPACE = frozenset({"create", "pwrite", "make_dir", "rename"})
_LONGEST_WAIT_S = 15.0


class SimulatedFile(MemoryFile):
    """An open file."""

    __slots__ = ()
    _disk: SimulatedDisk

    def pread_nowait(self, size: int, offset: int) -> bytes | None:
        return None if self._disk.waits() else super().pread_nowait(size, offset)

    def send_nowait(self, socket: int, size: int, offset: int) -> int | None:
        disk = self._disk
        transport = disk.network.transports.get(socket)
        if transport is None or disk.waits():
            return None
        return transport.send_now(bytes(self._node.data[offset : offset + size]))


class SimulatedDisk(MemoryDisk):
    """The `Disk` of a simulated machine."""

    def __init__(self, random: Random, trace: Trace, network: Network) -> None:
        super().__init__()
        self.network = network
        self.waiting_share = 0.02
        """The share of reads that have to wait for the device."""
        self._random = random
        self._hash = trace.note
        self._platter = Platter(self)
        self._failing: dict[str, tuple[int, int]] = {}
        self.full = False
        self.failures = 0
        self.sync_failed = False
        """Whether a sync has failed since the last power cut: the page cache may have data that the platter lacks."""
        self._completed_after: tuple[int, asyncio.Future[None]] | None = None
        self._interrupted: tuple[int, Callable[[], None]] | None = None
        self.process: Loop | None = None
        """The loop of the process that uses the disk."""
        self.slow_sync_s = 0.0
        """The usual duration of a sync."""
        self.broken = ""
        """The directory in which every call fails."""
        self._waited_s = 0.0
        self.observed = False
        """Whether the checker is reading: such reads never fail."""
        self.trace = _Follower(self)  # type: ignore[assignment]

    def waits(self) -> bool:
        return self._random.random() < self.waiting_share

    def open_file(self, path: str, create: bool = False) -> SimulatedFile:
        file = super().open_file(path, create)
        return SimulatedFile(self, file._node, path)

    # Faults

    def fail(self, kind: str, code: int, *, after: int = 0) -> None:
        """Make the call of `kind` after the next `after` calls fail with `code`, once."""
        self._failing[kind] = (after, code)

    def mend(self) -> None:
        """End all faults: every call succeeds, without delay."""
        self._failing.clear()
        self.full = False
        self.broken = ""
        self.slow_sync_s = 0.0
        self._interrupted = None

    def notify_after(self, count: int, reported: asyncio.Future[None]) -> None:
        """Complete `reported` after `count` more writes, syncs and directory changes."""
        self._completed_after = count, reported

    def interrupt(self, count: int, interruption: Callable[[], None]) -> None:
        """Call `interruption` before the change after the next `count`.

        If it ends the process, the disk call ends there.
        """
        self._interrupted = count, interruption

    def pop_sync_waits_s(self) -> float:
        """Return the total sync duration since the last call, at most `_LONGEST_WAIT_S`.

        One flush of many segments under a slow disk would otherwise outlast the time in which a healed cluster must
        make progress.
        """
        waited_s, self._waited_s = self._waited_s, 0.0
        return min(waited_s, _LONGEST_WAIT_S)

    def before(self, kind: str, path: str) -> None:
        if self.observed:
            return
        Worker.yield_point()
        if self._interrupted is not None and kind in _CHANGES:
            left, interruption = self._interrupted
            self._interrupted = (left - 1, interruption) if left else None
            if not left:
                interruption()
        process = self.process
        if process is not None and process.dead and (Worker.is_here() or process.is_running()):
            raise Ended
        if self.slow_sync_s and kind in ("sync", "sync_dir"):
            self._waited_s += self._random.expovariate(1 / self.slow_sync_s)
        if self.broken and (path == self.broken or path.startswith(self.broken + "/")):
            self.failures += 1
            self.sync_failed |= kind in ("sync", "sync_dir")
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        if self.full and kind in _NEEDS_SPACE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if kind in self._failing:
            after, code = self._failing[kind]
            if after:
                self._failing[kind] = (after - 1, code)
                return
            del self._failing[kind]
            self.failures += 1
            self.sync_failed |= kind in ("sync", "sync_dir")
            raise OSError(code, os.strerror(code), path)

    def room_for(self, size: int, path: str) -> int:
        fails_now = self.full or self._failing.get("pwrite", (1, 0))[0] == 0
        return self._random.randint(0, size - 1) if fails_now and size else size

    def free_bytes(self, path: str) -> int:
        return 0 if self.full else super().free_bytes(path)

    def power_cut(self) -> None:
        """Reset to a state that a power cut can leave."""
        self.root = self._platter.cut(self._random).root
        self._platter = Platter(self)
        self.sync_failed = False

    def rot(self, path: str, at: int) -> None:
        """Change one byte of a file at rest."""
        node = self._find(path)
        if isinstance(node, FileNode) and node.data:
            self.write(node, bytes([node.data[at % len(node.data)] ^ 0x55]), at % len(node.data))
            self.did(FileSynced(node))

    def wipe(self, path: str, kept: Collection[str]) -> None:
        """Remove everything from a directory except the names in `kept`; no running process has it open."""
        names = self._directory(path).entries if self.is_dir(path) else {}
        for name in names.keys() - kept:
            del names[name]
        self._platter = Platter(self)

    def drop(self, path: str, others: Iterable[str]) -> None:
        """Delete from a directory the subdirectories that one of the `others` also has.

        No running process has them open.
        """
        there = {name for other in others if self.is_dir(other) for name in self._directory(other).entries}
        names = self._directory(path).entries if self.is_dir(path) else {}
        twice = {name for name in names.keys() & there if self.is_dir(f"{path}/{name}")}
        if twice:
            self.wipe(path, names.keys() - twice)

    def took(self, effect: Effect) -> None:
        """Record the effect for durability and for the trace."""
        if self._completed_after is not None:
            left, reported = self._completed_after
            self._completed_after = (left - 1, reported) if left > 1 else None
            if left <= 1 and not reported.done():
                reported.set_result(None)
        if isinstance(effect, Write):
            self._hash(crc32(effect.data).to_bytes(4, "little"))
        elif isinstance(effect, FileSynced):
            self._hash(b"s")
        self._platter.follow(effect)


class _Follower:
    """The trace that a `MemoryDisk` writes to."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.append = disk.took
