"""A deferred result, with the methods of `asyncio.Future` that a connection uses and synchronous callbacks.

A future runs its callbacks in the next turn of the loop, and a task that awaits it resumes in the turn after that; each
turn polls the kernel. These turns are all the latency of a client that waits for records. A `Deferred` runs its
callbacks synchronously inside `answer` (Twisted: `Deferred`).

Code that completes a `Deferred` must therefore not be in the middle of a change that a callback could disturb, or else
calls `answer_soon`, which runs the callbacks in the next turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Deferred(Generic[T]):
    """A result of type T, or an exception, that is set later."""

    __slots__ = ("_callbacks", "_cancelled", "_done", "_exception", "_finish", "_loop", "_result")

    _result: Any

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._callbacks: list[Callable[[Deferred[T]], object]] = []
        self._finish: Callable[[Any], object] | None = None
        self._exception: Exception | None = None
        self._done = self._cancelled = False

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for the result through a future."""
        future: asyncio.Future[Deferred[T]] = self._loop.create_future()
        self.add_done_callback(future.set_result)
        yield from future
        return self.result()

    def as_future(self) -> asyncio.Future[T]:
        """Return a future of the result. Its callbacks do not run in the turn in which the result is set."""
        future: asyncio.Future[T] = self._loop.create_future()

        def settle(_: Deferred[T]) -> None:
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

    def then(self, finish: Callable[[T | Exception], Any]) -> Deferred[Any]:
        """Replace the outcome by what `finish` returns for the result or the exception; return `self`.

        Applies also if the result is already set. Calls chain in order. An exception that `finish` raises becomes the
        outcome.
        """
        if self._done and not self._cancelled:
            self._done, self._finish, self._exception = False, finish, None
            self._settle(self._result)
            return self
        earlier = self._finish
        self._finish = finish if earlier is None else partial(_both, earlier, finish)
        return self

    def done(self) -> bool:
        """Return whether a result or an exception is set, or the wait was cancelled."""
        return self._done

    def cancelled(self) -> bool:
        """Return whether the wait was cancelled before a result was set."""
        return self._cancelled

    def exception(self) -> Exception | None:
        """Return the exception; None if there is none."""
        return self._exception

    def result(self) -> T:
        """Return the result, or raise the exception. CancelledError if cancelled."""
        if self._exception is not None:
            raise self._exception
        if self._cancelled:
            raise asyncio.CancelledError
        result: T = self._result
        return result

    def add_done_callback(self, callback: Callable[[Deferred[T]], object]) -> None:
        """Call `callback` when this is done: synchronously, or in the next turn if it is done already."""
        if self._done:
            self._loop.call_soon(callback, self)
        else:
            self._callbacks.append(callback)

    def answer(self, outcome: T | Exception) -> None:
        """Set the result or the exception, and run the callbacks now."""
        self._settle(outcome)
        self._call_back()

    def answer_soon(self, outcome: T | Exception) -> None:
        """Set the result or the exception now, and run the callbacks in the next turn of the loop."""
        self._settle(outcome)
        self._loop.call_soon(self._call_back)

    def cancel(self) -> None:
        """Cancel the wait and run the callbacks, unless a result is set."""
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
        callbacks, self._callbacks = self._callbacks, []  # drop them: they often refer back to this object
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
