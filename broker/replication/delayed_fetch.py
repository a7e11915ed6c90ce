"""A fetch that waits for records (Kafka: `DelayedFetch`). Its session owns it: one at a time (`FetchSession.park`).

    event                                        outcome
    enough bytes became readable                 the response
    a partition changed otherwise (`CHANGED`):   the response if that gives an error or a new log start, else it
    leader, deletion, log start                  waits on
    the deadline passed                          the response, with what can be read
    the session ended: evicted or replaced       the response, with what can be read
    the session's next request arrived           INVALID_FETCH_SESSION_EPOCH
    the connection closed                        none: the response was cancelled

Every outcome ends the wait in `_end`, once, before the response is set: the connection may handle its next request
within that call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from broker.runtime.purgatory import DelayedOperation

if TYPE_CHECKING:
    from broker.runtime.deferred import Deferred
    from protocol.errors import ErrorCode

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Fetch(Protocol[T_co]):
    """A request whose response is of type T."""

    def attempt(self, final: bool) -> T_co | int:
        """Return the response, or the number of missing bytes if there are any and not `final`."""

    def refused(self, code: ErrorCode) -> T_co:
        """Return the response with an error of the whole request."""


class DelayedFetch(DelayedOperation, Generic[T]):
    """A fetch whose response, of type T, comes later."""

    kind: ClassVar[str] = "Fetch"
    __slots__ = ("_fetch", "_missing_bytes", "_on_end", "_response")

    def __init__(
        self,
        fetch: Fetch[T],
        missing_bytes: int,
        response: Deferred[T],
        on_end: Callable[[], None],
    ) -> None:
        """Wait for `missing_bytes`; `on_end` is called when the wait ends."""
        super().__init__()
        self._fetch = fetch
        self._missing_bytes = missing_bytes
        self._response = response
        self._on_end = on_end
        response.add_done_callback(self._completed)

    def add_readable(self, size_bytes: int) -> None:
        """Count `size_bytes` that became readable."""
        self._missing_bytes -= size_bytes

    def act(self) -> None:
        """Respond if enough can be read."""
        if self._missing_bytes <= 0:
            self._try(final=False)

    def expire(self) -> None:
        """Respond with what can be read now."""
        self._try(final=True)

    def refuse(self, code: ErrorCode) -> None:
        """Respond with an error."""
        self._end()
        self._response.answer_soon(self._fetch.refused(code))

    def _try(self, *, final: bool) -> None:
        outcome: T | int | Exception
        try:
            outcome = self._fetch.attempt(final)
        except Exception as error:
            outcome = error
        if isinstance(outcome, int):
            self._missing_bytes = outcome
        else:
            self._end()
            # In a later turn if `final`: a request that ends the session may be in progress.
            (self._response.answer_soon if final else self._response.answer)(outcome)

    def _completed(self, response: Deferred[T]) -> None:
        """End the wait of a closed connection: it may otherwise last long, or forever."""
        if response.cancelled():
            self._end()

    def _end(self) -> None:
        self.cancel()
        self._on_end()
