"""A deferred result, with the methods of `asyncio.Future` that a connection uses and synchronous callbacks.

A future runs its callbacks in the next turn of the loop, and a task that awaits it resumes in the turn after that; each
turn polls the kernel. These turns are all the latency of a client that waits for records. A `Deferred` runs its
callbacks synchronously inside `answer` (Twisted: `Deferred`).

    answer(outcome)         run the callbacks now: the caller is not in the middle of a change
    answer_soon(outcome)    set the outcome now, run the callbacks in the next turn: for all other callers
    cancel()                run the callbacks now, with neither result nor exception

`answer` is called amid a sweep of the purgatory, between other operations. So no callback may handle a request: a
connection sends the response, and resumes its backlog in a turn of its own (`ConnectionProtocol._answered`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_PENDING, _DONE, _CANCELLED = range(3)  # only pending is false


class Deferred(Generic[T]):
    """A result of type T, or an exception, that is set later."""

    # One class for what is answered and for what `then` returns: with a subclass, CPython's specialized instructions
    # would miss at each attribute, on the path of acks=all.
    __slots__ = ("_callbacks", "_continuation", "_follower", "_loop", "_outcome", "_source", "_state")

    _outcome: T | BaseException
    _continuation: Callable[[Any], T]

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._state = _PENDING
        self._source: Deferred[Any] | None = None
        self._follower: Deferred[Any] | None = None  # what the first `then` returned, while there are no callbacks
        self._callbacks: tuple[Callable[[Deferred[T]], object], ...] = ()

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for the result through a future."""
        return self.as_future().__await__()

    def as_future(self) -> asyncio.Future[T]:
        """Return a future of the result. Its callbacks do not run in the turn in which the result is set."""
        future: asyncio.Future[T] = self._loop.create_future()
        self.add_done_callback(partial(_complete_future, future))
        return future

    def then(self, continuation: Callable[[T | BaseException], R]) -> Deferred[R]:
        """Return a new Deferred of what `continuation` returns for the result or the exception of this one.

        It is called exactly once: when this one is done, or now if it is. An exception that it raises becomes that of
        the new Deferred. If this one is cancelled, it gets a CancelledError, and the new one is cancelled. Cancelling
        the new one cancels this one.
        """
        derived: Deferred[R] = Deferred(self._loop)
        derived._source = self
        derived._continuation = continuation
        if self._state:
            derived._follow(self)
        elif self._follower is None and not self._callbacks:
            self._follower = derived
        else:
            self._callbacks += (derived._follow,)
        return derived

    def done(self) -> bool:
        """Return whether a result or an exception is set, or the wait was cancelled."""
        return self._state != _PENDING

    def cancelled(self) -> bool:
        """Return whether the wait was cancelled before a result was set."""
        return self._state == _CANCELLED

    def exception(self) -> Exception | None:
        """Return the exception; None if there is none."""
        outcome = self._outcome if self._state == _DONE else None
        return outcome if isinstance(outcome, Exception) else None

    def result(self) -> T:
        """Return the result, or raise the exception. CancelledError if cancelled, InvalidStateError if not done."""
        if self._state == _CANCELLED:
            raise asyncio.CancelledError
        if self._state == _PENDING:
            raise asyncio.InvalidStateError("not answered yet")
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome

    def add_done_callback(self, callback: Callable[[Deferred[T]], object]) -> None:
        """Call `callback` when this is done: synchronously, or in the next turn if it is done already."""
        if self._state == _PENDING:
            self._callbacks += (callback,)
        else:
            self._loop.call_soon(callback, self)

    def answer(self, outcome: T | Exception) -> None:
        """Set the result or the exception, and run the callbacks now."""
        self._set(outcome)
        self._call_back()

    def answer_soon(self, outcome: T | Exception) -> None:
        """Set the result or the exception now, and run the callbacks in the next turn of the loop."""
        self._set(outcome)
        self._loop.call_soon(self._call_back)

    def cancel(self) -> None:
        """Cancel the wait and run the callbacks, unless this is done; cancel what this was derived from, too."""
        if self._state == _PENDING and self._source is not None:
            self._source.cancel()  # which cancels this one, unless the source is done
        if self._state == _PENDING:
            self._state = _CANCELLED
            self._call_back()

    def _set(self, outcome: T | Exception) -> None:
        if self._state:
            raise asyncio.InvalidStateError("answered twice")
        self._state = _DONE
        self._outcome = outcome

    def _follow(self, source: Deferred[Any]) -> None:
        """Complete with what the continuation makes of the outcome of `source`, unless this was cancelled before."""
        self._source = None
        state = source._state
        try:
            outcome: T | BaseException = self._continuation(
                source._outcome if state == _DONE else asyncio.CancelledError()
            )
        except Exception as error:
            outcome = error
        except asyncio.CancelledError as error:
            outcome, state = error, _CANCELLED
        if not self._state:
            self._state = state
            self._outcome = outcome
            self._call_back()

    def _call_back(self) -> None:
        follower = self._follower
        if follower is not None:
            self._follower = None
            follower._follow(self)
        callbacks = self._callbacks
        if callbacks:
            self._callbacks = ()  # they often refer back to this object
            for callback in callbacks:
                try:
                    callback(self)
                except Exception as error:
                    self._loop.call_exception_handler({"message": f"{callback} failed", "exception": error})


def _complete_future(future: asyncio.Future[T], deferred: Deferred[T]) -> None:
    if future.done():
        return
    if deferred.cancelled():
        future.cancel()
    elif (error := deferred.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(deferred.result())
