"""An event loop's threads, let go on by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import pytest


def keep_busy_the_threads_of(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing that is submitted to the loop's own executor ever begin; others work."""
    run_in_executor = loop.run_in_executor

    def run(executor: Executor | None, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        return loop.create_future() if executor is None else run_in_executor(executor, function, *args)

    monkeypatch.setattr(loop, "run_in_executor", run)


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
