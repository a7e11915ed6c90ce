"""The fetcher for one leader: sends the requests of `fetcher_state` over a connection, and runs its timer.

All changes within one turn of the loop go into one request. A response is handled in the turn in which it arrives,
while its bytes are still in the receive buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from broker.replication.fetcher_state import FETCH_FROM_VERSION, FetcherState
from protocol.api import ApiKey

if TYPE_CHECKING:
    import asyncio

    from protocol.schema import Message

    Answer = asyncio.Future[Message | None]


class LeaderConnection(Protocol):
    """A connection to one broker: `broker.network.network_client.Peer`, or a substitute in tests."""

    def call(self, request: Message, *, min_version: int = 0) -> Answer:
        """Send a request; return a future of the response, None if the connection was lost."""

    def close(self) -> None:
        """Close the connection; requests in flight are lost."""


class ReplicaFetcher:
    """The fetcher for one leader."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        machine: FetcherState,
        connection: LeaderConnection,
        broker_epoch: Callable[[], int],
        remark: Callable[[str], None],
    ) -> None:
        """Send nothing before `send_now`; `broker_epoch` returns this broker's epoch."""
        self._loop = loop
        self.machine = machine
        self._connection = connection
        self._broker_epoch = broker_epoch
        self._remark = remark
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def send_now(self) -> None:
        """Send the next request, if there is one, at the end of this turn of the loop."""
        if self._soon is None and not self._closed:
            self._soon = self._loop.call_soon(self._turn)

    def close(self) -> None:
        """Stop fetching; responses in flight are dropped."""
        self._closed = True
        for handle in (self._soon, self._timer):
            if handle is not None:
                handle.cancel()
        self._connection.close()

    def _elapsed_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _turn(self) -> None:
        self._soon = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        request = self.machine.next_request(self._broker_epoch(), self._elapsed_ms())
        if request is not None:
            min_version = FETCH_FROM_VERSION if request.API_KEY == ApiKey.FETCH else 0
            self._connection.call(request, min_version=min_version).add_done_callback(self._answered)
        due_ms = self.machine.due_ms
        if due_ms is not None:
            self._timer = self._loop.call_at((due_ms + 1) / 1000, self._turn)

    def _answered(self, answer: Answer) -> None:
        if self._closed:
            return
        response = None
        if not answer.cancelled():
            error = answer.exception()
            if error is None:
                response = answer.result()
            else:
                self._remark(str(error))
        self.machine.answered(response, self._elapsed_ms())
        self._turn_now()

    def _turn_now(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
        self._turn()
