"""Executors: threads for fsync, so that the event loop does not block on the disk.

Later flushes of a log do not count before earlier ones have finished. So every flush that starts here ends: if no
thread can be started, it fails with EAGAIN; a stop waits for it (`await_thread`).

Raft and group commit sync in threads of their own. In the loop's default executor a vote would queue behind cold reads
and group loads.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from errno import EAGAIN
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor

    from storage.log.flush import Flush


def thread_pool(name: str, count: int = 1) -> Executor:
    """Return an executor of at most `count` threads, which start on first use and end with its `shutdown`."""
    return ThreadPoolExecutor(count, thread_name_prefix=name)


def sync_in_thread(
    loop: asyncio.AbstractEventLoop, flushes: Sequence[Flush], executor: Executor | None = None
) -> asyncio.Future[None]:
    """Sync `flushes` in order, by default in the loop's executor. `Flush.finish` raises the error of each."""
    try:
        return loop.run_in_executor(executor, _sync, flushes)
    except RuntimeError as error:
        for flush in flushes:
            flush.error = OSError(EAGAIN, str(error))
        ended = loop.create_future()
        ended.set_result(None)
        return ended


async def await_thread(work: asyncio.Future[None]) -> None:
    """Wait until `work` is done in its thread, even if the waiting task is cancelled."""
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait((work,))
        raise


def _sync(flushes: Sequence[Flush]) -> None:
    for flush in flushes:
        flush.sync()
