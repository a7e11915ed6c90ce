"""An event loop whose connections to other nodes a test can cut; nothing passes a cut, in either direction.

It stands in the place of the event loop in `broker.metadata.node_clients`, whose connections are all to other nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from broker.control.network_cuts import NetworkCuts

NodeAt = Callable[[str, int], "int | None"]


class GatedLoop(asyncio.AbstractEventLoop):
    """The event loop, with connections that pass gates."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cuts: NetworkCuts, node_at: NodeAt) -> None:
        """`node_at` returns the id of the node that listens at an address; None if none is known."""
        self._loop = loop
        self._cuts = cuts
        self._node_at = node_at
        self.time = loop.time  # type: ignore[method-assign]
        self.call_at = loop.call_at  # type: ignore[method-assign]
        self.call_later = loop.call_later  # type: ignore[method-assign]
        self.call_soon = loop.call_soon  # type: ignore[method-assign]
        self.create_future = loop.create_future  # type: ignore[method-assign]
        self.create_task = loop.create_task  # type: ignore[method-assign]
        self.run_in_executor = loop.run_in_executor  # type: ignore[method-assign]
        self.call_exception_handler = loop.call_exception_handler  # type: ignore[method-assign]

    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        """Connect, once there is no cut."""
        peer = self._node_at(host, port)
        await self._cuts.gate(peer)
        if peer is None:
            return await self._loop.create_connection(protocol_factory, host, port, **options)
        return await self._loop.create_connection(
            lambda: _Gate(protocol_factory(), peer, self._cuts), host, port, **options
        )


class _Gate(asyncio.BufferedProtocol):
    """The protocol of a connection, and its transport, behind a gate: what is written during a cut is sent after it."""

    _transport: asyncio.Transport

    def __init__(self, inner: Any, peer: int, cuts: NetworkCuts) -> None:
        self._inner = inner
        self._peer = peer
        self._cuts = cuts
        self._unsent: list[bytes] = []
        self._is_cut = False
        self._forget: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass this on with itself as the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._forget = self._cuts.on_change(self._changed)
        self._changed()
        self._inner.connection_made(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Pass this on."""
        if self._forget is not None:
            self._forget()
        self._inner.connection_lost(error)

    def get_buffer(self, sizehint: int) -> Any:
        """Return the buffer of the protocol."""
        return self._inner.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on what was received."""
        self._inner.buffer_updated(nbytes)

    def write(self, data: bytes) -> None:
        """Send now, or once the cut is healed."""
        if self._is_cut:
            self._unsent.append(bytes(data))
        else:
            self._transport.write(data)

    def abort(self) -> None:
        """Close the connection."""
        self._transport.abort()

    def _changed(self) -> None:
        is_cut = self._peer in self._cuts.peers
        if is_cut == self._is_cut:
            return
        self._is_cut = is_cut
        with suppress(RuntimeError):  # it is closing
            if is_cut:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
        if not is_cut:
            unsent, self._unsent = self._unsent, []
            for data in unsent:
                self._transport.write(data)
