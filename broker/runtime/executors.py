"""Flushes on their way to the disk in a thread, where the wait for it holds up nobody.

A flush that is never finished stays under way, and no later one of its log counts. So what is begun here always ends:
where no thread can be started, with the flushes failed; and at a stop, which would have to sync the log again.

Raft and group commit sync in threads of their own: in the loop's executor, cold reads and loads of groups would queue
in front of a vote.
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


def own_threads(name: str, count: int = 1) -> Executor:
    """Return an executor of at most `count` threads: they start with its first work, and end when it is dropped."""
    return ThreadPoolExecutor(count, thread_name_prefix=name)


def sync_in_thread(
    loop: asyncio.AbstractEventLoop, flushes: Sequence[Flush], executor: Executor | None = None
) -> asyncio.Future[None]:
    """Sync `flushes` one after the other, by default in the loop's executor; `finish` of each raises its error."""
    try:
        return loop.run_in_executor(executor, _sync, flushes)
    except RuntimeError as error:
        for flush in flushes:
            flush.error = OSError(EAGAIN, str(error))
        ended = loop.create_future()
        ended.set_result(None)
        return ended


async def outlast(work: asyncio.Future[None]) -> None:
    """Wait until a thread is done with `work`, even if the waiting is cancelled meanwhile."""
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait((work,))
        raise


def _sync(flushes: Sequence[Flush]) -> None:
    for flush in flushes:
        flush.sync()
