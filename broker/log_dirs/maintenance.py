"""Periodic maintenance of the logs (retention, syncs, deletions, full disks), in steps small enough for the event loop.

Each task runs at its own interval, counted from the end of its last run. Work that grows with the number of logs is an
iterator, advanced one step a turn of the loop; syncs run in a thread. A task that fails logs the exception and runs
again at its next interval: no promise to clients depends on it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import islice

from broker.runtime.executors import await_thread, sync_in_thread
from protocol.errors import InvariantError, KafkaError
from storage.disk import remedy
from storage.log.flush import Flush
from storage.log_directory import LogDirectory
from storage.log_manager import LogManager

_log = logging.getLogger("broker.log_dirs.maintenance")

_SYNC_INTERVAL_S = 1.0
_SYNCED_AT_ONCE = 32
_MIN_ROOM_S = 5.0


class LogMaintenance:
    """The periodic tasks, each an asyncio task."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        """Run tasks on `loop`, which `sleep` between their runs."""
        self._loop = loop
        self._sleep = sleep
        self._tasks: list[asyncio.Task[None]] = []

    def every(self, interval_s: float, task: Callable[[], Awaitable[None]], *, first_s: float | None = None) -> None:
        """Run `task` every `interval_s`, the first time after the smaller of `interval_s` and `first_s`."""
        first_s = interval_s if first_s is None else min(first_s, interval_s)
        self._tasks.append(self._loop.create_task(self._repeat(first_s, interval_s, task)))

    async def stop(self) -> None:
        """Cancel all tasks; return once the syncs in flight are done."""
        for running in self._tasks:
            running.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, first_s: float, interval_s: float, task: Callable[[], Awaitable[None]]) -> None:
        wait_s = first_s
        while True:
            await self._sleep(wait_s)
            wait_s = interval_s
            try:
                await task()
            except InvariantError as error:
                self._loop.call_exception_handler({"message": "maintenance broke an invariant", "exception": error})
            except Exception:
                _log.exception("A maintenance task failed and will be retried")


async def apply_retention(logs: LogManager, now_ms: int, *, only_full: bool = False) -> None:
    """Apply retention, one log a turn of the loop; with `only_full`, only to logs in full directories."""
    for failure in logs.apply_retention(now_ms, only_full=only_full):
        if failure is not None:
            _log.error("%s", failure)
        while logs.deletions:
            _log.info("%s", logs.deletions.pop(0))
        await asyncio.sleep(0)
    report_problems(logs)


async def expire_producers(logs: LogManager, now_ms: int, expiration_ms: int) -> None:
    """Drop producer state idle for `expiration_ms`, one log a turn of the loop."""
    for _ in logs.expire_producers(now_ms, expiration_ms):
        await asyncio.sleep(0)


def sync_interval_s(wanted_ms: int) -> float:
    """Return how often to look for due syncs: every `_SYNC_INTERVAL_S`, or more often if `wanted_ms` is shorter."""
    return min(max(wanted_ms, 1) / 1000, _SYNC_INTERVAL_S)


async def sync(logs: LogManager, loop: asyncio.AbstractEventLoop, now_ms: int) -> None:
    """Sync what is due by `flush.ms`, and rolled segments."""
    for flush in logs.due_flushes(now_ms):
        if flush is None:
            await asyncio.sleep(0)
            continue
        try:
            await await_thread(sync_in_thread(loop, [flush]))
        finally:
            _finish(flush)


async def sync_all(logs: LogManager, loop: asyncio.AbstractEventLoop) -> None:
    """Sync everything that closing `logs` would sync, `_SYNCED_AT_ONCE` logs at a time to bound the open files."""
    flushes = logs.begin_close()
    while some := list(islice(flushes, _SYNCED_AT_ONCE)):
        await asyncio.gather(*(sync_in_thread(loop, [flush]) for flush in some))
        for flush in some:
            _finish(flush)


def _finish(flush: Flush) -> None:
    try:
        flush.finish()
    except KafkaError as error:
        _log.error("%s", error)


async def delete_files(logs: LogManager, now_ms: int) -> None:
    """Delete the files of deleted logs and segments whose delay has passed, one log a turn of the loop."""
    for failure in logs.delete_files(now_ms):
        if failure is not None:
            _log.error("%s", failure)
        await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    for directory, formers in logs.deletion_queue.take_removed().items():
        if directory.failure is None:
            try:
                with directory.storage_errors():
                    await await_thread(loop.run_in_executor(None, directory.sync_names))
            except KafkaError as error:
                _log.error("%s", error)
            else:
                logs.deletion_queue.synced(formers)


class DiskSpaceMonitor:
    """Logs once when a directory fails, once when it is full, and once when it is no longer full.

    The last only `_MIN_ROOM_S` after the latest refused write: a directory with space for small batches but not for
    large ones would otherwise alternate between the two.
    """

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self._full: dict[LogDirectory, tuple[int, float]] = {}
        self._failed: set[LogDirectory] = set()

    def check(self, now: float) -> bool:
        """Check every directory at loop time `now`; return whether none is full."""
        for directory in self._logs.directories:
            if directory.failure is None and not directory.full and _has_room(directory):
                continue
            if directory.failure is not None:
                if directory not in self._failed:
                    self._failed.add(directory)
                    _log.error(
                        "%s; its replicas are offline until a restart: %s, then restart the broker",
                        directory.offline().message,
                        remedy(directory.failure),
                    )
                continue
            known = self._full.get(directory)
            if known is None:
                text = (
                    "Disk nearly full: %s free in %s. New topics are refused, as are records and settings that do not "
                    "fit. Delete or trim topics, or lower retention.ms"
                )
                _log.warning(text, _size(directory.free_bytes()), directory.path)
            if known is None or known[0] != directory.refused_writes:
                self._full[directory] = (directory.refused_writes, now)
            elif now - known[1] >= _MIN_ROOM_S and _has_room(directory):
                directory.full = False
                del self._full[directory]
                _log.warning("There is space in %s again", directory.path)
        return not any(directory.full for directory in self._logs.online)


def _has_room(directory: LogDirectory) -> bool:
    """Return whether `directory` has space; False also if the query fails, which takes the directory offline."""
    with suppress(KafkaError):
        return directory.has_room()
    return False


def _size(size_bytes: int) -> str:
    """Format a size in bytes with its unit, for sizes up to a few MiB."""
    if size_bytes < 1 << 10:
        return f"{size_bytes} B"
    return f"{size_bytes / (1 << 10):.0f} KiB" if size_bytes < 1 << 20 else f"{size_bytes / (1 << 20):.1f} MiB"


def report_problems(logs: LogManager) -> None:
    """Log and clear the problems that storage found and tolerated."""
    problems, logs.problems[:] = logs.problems[:], []
    for problem in problems:
        _log.warning("%s", problem)
