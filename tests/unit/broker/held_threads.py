"""An event loop's threads, released by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

import pytest


def block_default_executor(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Occupy the loop's default executor so that no submitted job starts; other executors work."""
    run_in_executor = loop.run_in_executor

    def run(executor: Executor | None, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        return loop.create_future() if executor is None else run_in_executor(executor, function, *args)

    monkeypatch.setattr(loop, "run_in_executor", run)


class HeldThreads:
    """An executor that runs each job in a thread of its own, when the test releases it; Raft's jobs run at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._run_at_once = loop.run_in_executor
        self.spent = False  # Whether starting a thread fails.
        self.jobs: list[tuple[asyncio.Future[Any], Callable[[], Any]]] = []

    @classmethod
    @contextmanager
    def of(cls, loop: asyncio.AbstractEventLoop) -> Iterator[HeldThreads]:
        """Hold the jobs of a loop; those still held at the end run then."""
        held = cls(loop)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "run_in_executor", held.run)
            yield held
        while held.jobs:
            held.let()

    def run(self, executor: Executor | None, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        if getattr(executor, "_thread_name_prefix", "") == "raft":
            return self._run_at_once(executor, function, *args)
        if self.spent:
            raise RuntimeError("can't start new thread")
        outcome = self._loop.create_future()
        self.jobs.append((outcome, lambda: function(*args)))
        return outcome

    def let(self, number: int = 0) -> None:
        """Run one of the jobs."""
        outcome, job = self.jobs.pop(number)
        result = job()
        if not outcome.done():
            outcome.set_result(result)
