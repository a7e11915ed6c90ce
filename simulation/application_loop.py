"""The event loop of a process of a simulated application.

It has what applications use beyond the broker: signal handlers, an exception handler, connections to `localhost`. Its
tasks and futures hash by number, not by address, so that the iteration order of a set of them is the same in each run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from itertools import count
from typing import Any

from simulation.loop import Loop, Schedule

_LOCAL = ("localhost", "127.0.0.1", "::1")


class NumberedTask(asyncio.Task[Any]):
    """A task with a hash that does not depend on its address."""

    def __init__(self, number: int, *args: Any, **options: Any) -> None:
        self._number = number
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number


class NumberedFuture(asyncio.Future[Any]):
    """A future with a hash that does not depend on its address."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class ApplicationLoop(Loop):
    """The event loop of one process."""

    def __init__(self, schedule: Schedule, host: str, index: int) -> None:
        super().__init__(schedule, host, index)
        self.slept_s = 0.0
        """How long the running callback has slept (time.sleep)."""
        self.signal_handlers: dict[int, Callable[[], object]] = {}
        self.disk_waits_s = self._pop_slept_s
        self._numbers = count(1)
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None

    def _pop_slept_s(self) -> float:
        slept_s, self.slept_s = self.slept_s, 0.0
        return slept_s

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(next(self._numbers), self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        number = next(self._numbers)
        # Without a name, asyncio counts all tasks of the interpreter.
        return NumberedTask(number, coro, loop=self, name=name or f"Task-{number}", context=context)

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        self.signal_handlers[sig] = lambda: callback(*args)

    def remove_signal_handler(self, sig: int) -> bool:
        return self.signal_handlers.pop(sig, None) is not None

    def set_exception_handler(self, handler: Any) -> None:
        self._handler = handler

    def get_exception_handler(self) -> Any:
        return self._handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._handler is not None and not self.dead:
            self._handler(self, context)
        else:
            super().call_exception_handler(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        super().call_exception_handler(context)

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        _refuse_tls(options)
        return await super().create_server(protocol_factory, self._named(host), port, **options)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        _refuse_tls(options)
        return await super().create_connection(protocol_factory, self._named(host), port, **options)

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> list[Any]:
        return await super().getaddrinfo(self._named(host), port, **options)

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: generators end with the process."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncio's
        """Do nothing: threads end with the process."""

    def _named(self, host: Any) -> Any:
        return self.host if host in _LOCAL else host


def _refuse_tls(options: dict[str, Any]) -> None:
    if options.get("ssl"):
        raise NotImplementedError("the simulated network has no TLS: use PLAINTEXT in simulate()")
