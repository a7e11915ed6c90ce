"""An answer that comes later, and is told in the very turn of the loop in which it comes.

A future calls back in the next turn, a task that awaits one in the turn after that, and each turn asks the kernel what
else there is. Whoever waits for records waits for nothing but these turns. So a promise has the few methods of
`asyncio.Future` that a connection needs, and calls back at once. Whoever answers must not be in the middle of
something that those who are told would disturb; who is, answers *soon*, in a turn of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Promise(Generic[T]):
    """An answer of type T, or an exception, to come."""

    __slots__ = ("_callbacks", "_cancelled", "_done", "_exception", "_finish", "_loop", "_result")

    _result: Any

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._callbacks: list[Callable[[Promise[T]], object]] = []
        self._finish: Callable[[Any], object] | None = None
        self._exception: Exception | None = None
        self._done = self._cancelled = False

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for it as for a future."""
        future: asyncio.Future[Promise[T]] = self._loop.create_future()
        self.add_done_callback(future.set_result)
        yield from future
        return self.result()

    def as_future(self) -> asyncio.Future[T]:
        """Return a future of it, for those who are not to be called back in the turn in which it is answered."""
        future: asyncio.Future[T] = self._loop.create_future()

        def settle(_: Promise[T]) -> None:
            if future.done():
                return
            if self._exception is not None:
                future.set_exception(self._exception)
            elif self._cancelled:
                future.cancel()
            else:
                future.set_result(self._result)

        self.add_done_callback(settle)
        return future

    def then(self, finish: Callable[[T | Exception], Any]) -> Promise[Any]:
        """Make it a promise of what `finish` makes of the answer or the exception, also if that has come already."""
        if self._done and not self._cancelled:
            self._done, self._finish, self._exception = False, finish, None
            self._settle(self._result)
            return self
        earlier = self._finish
        self._finish = finish if earlier is None else partial(_both, earlier, finish)
        return self

    def done(self) -> bool:
        """Say whether it was answered or cancelled."""
        return self._done

    def cancelled(self) -> bool:
        """Say whether nobody waits for it any more."""
        return self._cancelled

    def exception(self) -> Exception | None:
        """Return what went wrong, if anything did."""
        return self._exception

    def result(self) -> T:
        """Return the answer, or raise what went wrong."""
        if self._exception is not None:
            raise self._exception
        if self._cancelled:
            raise asyncio.CancelledError
        result: T = self._result
        return result

    def add_done_callback(self, callback: Callable[[Promise[T]], object]) -> None:
        """Call `callback` when it is answered or cancelled."""
        if self._done:
            self._loop.call_soon(callback, self)
        else:
            self._callbacks.append(callback)

    def answer(self, outcome: T | Exception) -> None:
        """Answer it, and call back now."""
        self._settle(outcome)
        self._call_back()

    def answer_soon(self, outcome: T | Exception) -> None:
        """Answer it, and call back in a turn of its own."""
        self._settle(outcome)
        self._loop.call_soon(self._call_back)

    def cancel(self) -> None:
        """Let go of it, unless it was answered."""
        if not self._done:
            self._done = self._cancelled = True
            self._call_back()

    def _settle(self, outcome: T | Exception) -> None:
        if self._done:
            raise asyncio.InvalidStateError("answered twice")
        self._done = True
        try:
            self._result = outcome if self._finish is None else self._finish(outcome)
        except Exception as error:
            self._result = error
        if isinstance(self._result, Exception):
            self._exception = self._result

    def _call_back(self) -> None:
        callbacks, self._callbacks = self._callbacks, []  # who answers is often among them: no cycle is to stay
        for callback in callbacks:
            try:
                callback(self)
            except Exception as error:
                self._loop.call_exception_handler({"message": f"{callback} failed", "exception": error})


def _both(first: Callable[[Any], Any], second: Callable[[Any], Any], outcome: Any) -> Any:
    try:
        outcome = first(outcome)
    except Exception as error:
        outcome = error
    return second(outcome)
