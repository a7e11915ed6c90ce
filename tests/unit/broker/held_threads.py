"""An event loop's threads, let go on by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class HeldThreads:
    """An executor whose threads do nothing before they are let: each with one job."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.spent = False  # whether none can be started
        self.jobs: list[tuple[asyncio.Future[Any], Callable[[], Any]]] = []

    def run(self, _: object, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        if self.spent:
            raise RuntimeError("can't start new thread")
        outcome = self._loop.create_future()
        self.jobs.append((outcome, lambda: function(*args)))
        return outcome

    def let(self, number: int = 0) -> None:
        """Let one of the jobs be done."""
        outcome, job = self.jobs.pop(number)
        outcome.set_result(job())
