"""What the broker does from time to time, in steps small enough for the event loop.

Each chore runs at its own interval, counted from the end of its last run. Work that grows with the number of
logs is an iterator, of which one step is done in a turn of the loop; syncing is left to a thread. A chore that
fails says so in the log and comes again: none of them is needed for what clients were promised.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import TYPE_CHECKING

from protocol.errors import InvariantError, KafkaError

if TYPE_CHECKING:
    from storage.log_manager import LogManager

_log = logging.getLogger("broker.housekeeping")

_SYNCED_AT_ONCE = 32


class Housekeeping:
    """The chores, each in a task of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._chores: list[asyncio.Task[None]] = []

    def every(self, interval_s: float, chore: Callable[[], Awaitable[None]]) -> None:
        """Run `chore` again and again, first after `interval_s`."""
        self._chores.append(self._loop.create_task(self._repeat(interval_s, chore)))

    async def stop(self) -> None:
        """End all chores where they are."""
        for task in self._chores:
            task.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)

    async def _repeat(self, interval_s: float, chore: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await chore()
            except InvariantError as error:
                self._loop.call_exception_handler({"message": "housekeeping broke an invariant", "exception": error})
            except Exception:
                _log.exception("A chore failed and will be tried again")


async def tidy(logs: LogManager, now_ms: int) -> None:
    """Apply retention and delete what is due, one log a turn of the loop."""
    for failure in logs.housekeeping(now_ms):
        if failure is not None:
            _log.error("%s", failure)
        await asyncio.sleep(0)
    report_problems(logs)


async def sync(logs: LogManager, loop: asyncio.AbstractEventLoop, now_ms: int) -> None:
    """Make durable what is due by `flush.ms`, and the segments that were rolled."""
    for flush in logs.due_flushes(now_ms):
        await loop.run_in_executor(None, flush.sync)
        try:
            flush.finish()
        except KafkaError as error:
            _log.error("%s", error)


async def sync_all(logs: LogManager, loop: asyncio.AbstractEventLoop) -> None:
    """Sync everything that closing `logs` would sync, as many at a time as descriptors are sure to last for."""
    flushes = logs.begin_close()
    while some := list(islice(flushes, _SYNCED_AT_ONCE)):
        await asyncio.gather(*(loop.run_in_executor(None, flush.sync) for flush in some))
        for flush in some:
            try:
                flush.finish()
            except KafkaError as error:
                _log.error("%s", error)


def report_problems(logs: LogManager) -> None:
    """Log what storage found wrong and put up with, once."""
    problems, logs.problems[:] = logs.problems[:], []
    for problem in problems:
        _log.warning("%s", problem)
