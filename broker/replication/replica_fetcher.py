"""The fetcher for one leader: sends the requests of `fetcher_state` over a connection, and runs its timer.

All changes within one turn of the loop go into one request. A response is handled in the turn in which it arrives,
while its bytes are still in the receive buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from broker.replication.fetcher_state import FETCH_FROM_VERSION, FetcherState
from broker.runtime.alarm import Alarm
from protocol.api import ApiKey

if TYPE_CHECKING:
    import asyncio

    from protocol.schema import Message

    ResponseFuture = asyncio.Future[Message | None]


class LeaderConnection(Protocol):
    """A connection to one broker: `broker.network.network_client.NetworkClient`, or a substitute in tests."""

    def call(self, request: Message, *, min_version: int = 0) -> ResponseFuture:
        """Send a request; return a future of the response, None if the connection was lost."""

    def close(self) -> None:
        """Close the connection; requests in flight are lost."""


class ReplicaFetcher:
    """The fetcher for one leader."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        state: FetcherState,
        connection: LeaderConnection,
        broker_epoch: Callable[[], int],
        log_warning: Callable[[str], None],
    ) -> None:
        """Send nothing before `send_now`; `broker_epoch` returns this broker's epoch."""
        self._loop = loop
        self.state = state
        self._connection = connection
        self._broker_epoch = broker_epoch
        self._log_warning = log_warning
        self._alarm = Alarm(loop, self._send)
        self._closed = False

    def send_now(self) -> None:
        """Send the next request, if there is one, at the end of this turn of the loop."""
        if not self._closed:
            self._alarm.schedule()

    def close(self) -> None:
        """Stop fetching; responses in flight are dropped."""
        self._closed = True
        self._alarm.cancel()
        self._connection.close()

    def _elapsed_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _send(self) -> None:
        request = self.state.next_request(self._broker_epoch(), self._elapsed_ms())
        if request is not None:
            min_version = FETCH_FROM_VERSION if request.API_KEY == ApiKey.FETCH else 0
            self._connection.call(request, min_version=min_version).add_done_callback(self._answered)
        self._alarm.schedule_at_ms(self.state.due_ms)

    def _answered(self, answer: ResponseFuture) -> None:
        if self._closed:
            return
        response = None
        if not answer.cancelled():
            error = answer.exception()
            if error is None:
                response = answer.result()
            else:
                self._log_warning(str(error))
        self.state.handle_response(response, self._elapsed_ms())
        self._alarm.run_now()
