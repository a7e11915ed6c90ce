"""An event loop's threads, released by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import pytest


def block_default_executor(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Occupy the loop's default executor so that no submitted job starts; other executors work."""
    run_in_executor = loop.run_in_executor

    def run(executor: Executor | None, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        return loop.create_future() if executor is None else run_in_executor(executor, function, *args)

    monkeypatch.setattr(loop, "run_in_executor", run)


class HeldThreads:
    """An executor that runs each job in a thread of its own, when the test releases it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.spent = False  # Whether starting a thread fails.
        self.jobs: list[tuple[asyncio.Future[Any], Callable[[], Any]]] = []

    def run(self, _: object, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        if self.spent:
            raise RuntimeError("can't start new thread")
        outcome = self._loop.create_future()
        self.jobs.append((outcome, lambda: function(*args)))
        return outcome

    def let(self, number: int = 0) -> None:
        """Run one of the jobs."""
        outcome, job = self.jobs.pop(number)
        outcome.set_result(job())
