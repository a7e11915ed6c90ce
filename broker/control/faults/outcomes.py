"""What a dispatcher returned for a request, changed or delayed before it is sent.

An outcome is the parts of the response, None for none, or a `DeferredResponse`. A `gate` is a `Deferred` that lets a
request or response pass when it is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from broker.network.connection import Connection
from broker.network.connection_protocol import DeferredResponse
from broker.runtime.deferred import Deferred
from protocol.primitives import Part

Response: TypeAlias = "list[Part] | None"
FaultOutcome: TypeAlias = "list[Part] | DeferredResponse | None"
Change: TypeAlias = Callable[[Response], Response]
Dispatched: TypeAlias = Callable[[memoryview, Connection], FaultOutcome]

HOLDS_BACK = -1
"""The API key of a deferred response while whose request waits the connection handles no other."""


def changed(outcome: FaultOutcome, change: Change, loop: asyncio.AbstractEventLoop) -> FaultOutcome:
    """Return the outcome whose response is `change(response)`; it may raise `Disconnect`."""
    if not isinstance(outcome, DeferredResponse):
        return change(outcome)

    def continuation(response: Response | BaseException) -> Response:
        if isinstance(response, BaseException):
            raise response
        return change(response)

    return DeferredResponse(outcome.api_key, as_deferred(outcome, loop).then(continuation))


def as_deferred(outcome: FaultOutcome, loop: asyncio.AbstractEventLoop) -> Deferred[Response]:
    """Return the response of an outcome as a `Deferred`; cancelling that cancels a fetch that waits."""
    if isinstance(outcome, DeferredResponse) and isinstance(outcome.response, Deferred):
        return outcome.response
    found: Deferred[Response] = Deferred(loop)
    if isinstance(outcome, DeferredResponse):
        outcome.response.add_done_callback(lambda source: _complete(found, source))
    else:
        found.answer(outcome)
    return found


def _complete(target: Deferred[Response], source: asyncio.Future[Response] | Deferred[Response]) -> None:
    """Complete `target` as `source`, which is done."""
    if target.done():
        return
    if source.cancelled():
        target.cancel()
        return
    error = source.exception()
    target.answer(source.result() if error is None else _as_exception(error))


def _as_exception(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else RuntimeError(f"the response failed: {error!r}")


def sent_after(
    outcome: FaultOutcome, api_key: int, gate: Deferred[None], loop: asyncio.AbstractEventLoop
) -> FaultOutcome:
    """Return the outcome of a request of an API whose response is sent once it is there and `gate` is done."""
    response, released = as_deferred(outcome, loop), Deferred[Response](loop)

    def release(_: object) -> None:
        if response.done() and gate.done() and not released.done():
            _complete(released, response)

    def cancel(ended: Deferred[Response]) -> None:
        if ended.cancelled():
            response.cancel()

    response.add_done_callback(release)
    gate.add_done_callback(release)
    released.add_done_callback(cancel)
    return DeferredResponse(outcome.api_key if isinstance(outcome, DeferredResponse) else api_key, released)


def dispatched_after(
    frame: memoryview,
    connection: Connection,
    dispatch: Dispatched,
    gate: Deferred[None],
    loop: asyncio.AbstractEventLoop,
) -> DeferredResponse:
    """Return the outcome of a request that is handled once `gate` is done; until then the connection handles no other.

    If the connection has closed by then, it is not handled.
    """
    copy = memoryview(bytearray(frame))  # the frame is valid until this returns
    response: Deferred[Response] = Deferred(loop)

    def dispatch_now() -> None:
        if connection.closed or connection.ending:
            response.cancel()
            return
        try:
            outcome = dispatch(copy, connection)
        except Exception as error:
            response.answer(error)
            return
        as_deferred(outcome, loop).add_done_callback(lambda source: _complete(response, source))

    # In a turn of its own: a gate may open in the middle of other work, which must not handle a request.
    gate.add_done_callback(lambda _: loop.call_soon(dispatch_now))
    return DeferredResponse(HOLDS_BACK, response)
