"""The recorder: a dispatcher that writes the transcript of the one behind it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from broker.control.peers import sending_node
from broker.network.connection import Disconnect
from broker.network.connection_protocol import DeferredResponse
from protocol.errors import DecodeError
from protocol.headers import decode_request_header

if TYPE_CHECKING:
    from broker.control.faults.fault_injector import FaultInjector
    from broker.control.faults.outcomes import FaultOutcome
    from broker.control.transcript.exchange import Exchange, ExchangeRing
    from broker.network.connection import Connection
    from broker.network.connection_protocol import Response


class TranscriptRecorder:
    """Records the requests of one listener, as its clients see them: with the faults that act on them."""

    def __init__(
        self,
        injector: FaultInjector,
        ring: ExchangeRing,
        now_ms: Callable[[], int],
        time_s: Callable[[], float],
    ) -> None:
        """`now_ms` is the wall clock, `time_s` the event loop's."""
        self._injector = injector
        self._ring = ring
        self._now_ms = now_ms
        self._time_s = time_s

    def __call__(self, frame: memoryview, connection: Connection) -> FaultOutcome:
        """Handle one request; raises as the dispatcher."""
        try:
            header, body_at = decode_request_header(frame)
        except DecodeError:
            return self._injector(frame, connection)
        exchange = self._ring.begin(header, connection.client_host, frame, self._now_ms())
        exchange.from_broker = sending_node(header, connection, frame, body_at) is not None
        begun = self._time_s()
        self._injector.last_rule = None
        try:
            outcome = self._injector(frame, connection)
        except (Disconnect, DecodeError) as reason:
            exchange.rule_id = self._injector.last_rule
            self._ring.end(exchange, None, self._since(begun), f"closed: {reason}")
            raise
        exchange.rule_id = self._injector.last_rule
        if isinstance(outcome, DeferredResponse):
            outcome.response.add_done_callback(partial(self._end_deferred, exchange, begun))
        else:
            self._ring.end(exchange, outcome, self._since(begun))
        return outcome

    def _end_deferred(self, exchange: Exchange, begun: float, response: Response) -> None:
        if response.cancelled():
            self._ring.end(exchange, None, self._since(begun), "closed by the client")
        elif reason := response.exception():
            self._ring.end(exchange, None, self._since(begun), f"closed: {reason}")
        else:
            self._ring.end(exchange, response.result(), self._since(begun))

    def _since(self, begun: float) -> float:
        return round((self._time_s() - begun) * 1000, 3)
