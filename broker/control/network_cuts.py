"""From whom a broker is cut off: clients, other nodes; as by a network that loses every packet.

Requests wait while their sender is cut off, and responses too. They go on once the cut is healed, as TCP sends again
what was lost, even if the sender has closed its socket. A cut at one of two nodes cuts both directions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from broker.control.faults.outcomes import (
    Dispatched,
    FaultOutcome,
    dispatched_after,
    sent_after,
)
from broker.control.peers import sending_node
from broker.network.connection_protocol import DeferredResponse
from broker.runtime.deferred import Deferred
from protocol.errors import DecodeError
from protocol.headers import decode_request_header

if TYPE_CHECKING:
    from broker.network.connection import Connection

Peer: TypeAlias = int | None
"""A node's id; None: the clients."""


class NetworkCuts:
    """The cuts of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.peers: frozenset[Peer] = frozenset()
        """Those that the broker is cut off from."""
        self._gates: list[tuple[Peer, Deferred[None]]] = []
        self._on_change: dict[Callable[[], object], None] = {}

    def set(self, peers: frozenset[Peer]) -> None:
        """Cut the broker off from `peers`, and from no others."""
        self.peers = peers
        open_ = [gate for peer, gate in self._gates if peer not in peers]
        self._gates = [(peer, gate) for peer, gate in self._gates if peer in peers]
        for gate in open_:
            gate.answer(None)
        for callback in tuple(self._on_change):
            callback()

    def gate(self, peer: Peer) -> Deferred[None]:
        """Return what is done once the broker is not, or no longer, cut off from a peer."""
        gate: Deferred[None] = Deferred(self._loop)
        if peer in self.peers:
            self._gates.append((peer, gate))
        else:
            gate.answer(None)
        return gate

    def on_change(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` after each change, until the returned function is called."""
        self._on_change[callback] = None

        def forget() -> None:
            self._on_change.pop(callback, None)

        return forget


class CutDispatcher:
    """A dispatcher that handles no request of a peer that the broker is cut off from, and sends it no response."""

    def __init__(self, dispatch: Dispatched, cuts: NetworkCuts, loop: asyncio.AbstractEventLoop) -> None:
        self._dispatch = dispatch
        self._cuts = cuts
        self._loop = loop

    def __call__(self, frame: memoryview, connection: Connection) -> FaultOutcome:
        """Handle one request; raises as the dispatcher."""
        try:
            header, body_at = decode_request_header(frame)
        except DecodeError:
            return self._dispatch(frame, connection)
        peer = sending_node(header, connection, frame, body_at)
        if peer in self._cuts.peers:
            return dispatched_after(frame, connection, self, self._cuts.gate(peer), self._loop)
        outcome = self._dispatch(frame, connection)
        if not isinstance(outcome, DeferredResponse):
            return outcome
        return self._send_unless_cut(outcome, header.api_key, peer)

    def _send_unless_cut(self, outcome: DeferredResponse, api_key: int, peer: Peer) -> FaultOutcome:
        """Return the outcome whose response waits if there is a cut when it comes."""
        gate: Deferred[None] = Deferred(self._loop)
        sent = sent_after(outcome, api_key, gate, self._loop)

        def response_is_there(_: object) -> None:
            if peer not in self._cuts.peers:
                gate.answer(None)
            else:
                self._cuts.gate(peer).add_done_callback(lambda _: gate.answer(None))

        outcome.response.add_done_callback(response_is_there)
        return sent
