"""The other nodes of the cluster, and how this one connects to them.

Controllers are where `controller.quorum.voters` says; brokers where they have registered, on the listener that
`inter.broker.listener.name` or `security.inter.broker.protocol` names, else on their first. Each user of a connection
has its own, so that nobody waits behind what another has asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.peer import Address, Peer, PeerLimits

if TYPE_CHECKING:
    from random import Random

    from broker.settings import Settings
    from controller.image import MetadataImage


class Neighbours:
    """Makes connections to other nodes."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop, random: Random) -> None:
        self._settings = settings
        self._loop = loop
        self._random = random
        self._voters: dict[int, Address] = {voter.node_id: (voter.host, voter.port) for voter in settings.voters}
        self._name = f"{'broker' if settings.is_broker else 'controller'}-{settings.node_id}"

    def voter(self, node_id: int, on_lost: Callable[[], None]) -> Peer:
        """Return a connection for what the quorum's nodes say to each other."""
        return self._peer(
            self._voters[node_id], self._settings["controller.quorum.request.timeout.ms"], on_lost=on_lost
        )

    def controller(self, node_id: int, on_change: Callable[[], None]) -> Peer:
        """Return a connection for requests to the active controller; `on_change` tells when it comes and goes."""
        return self._peer(
            self._voters[node_id],
            self._settings["controller.socket.timeout.ms"],
            on_ready=on_change,
            on_lost=on_change,
        )

    def broker(self, address: Address) -> Peer:
        """Return a connection to the broker at `address`."""
        return self._peer(address, self._settings["replica.socket.timeout.ms"])

    def address_of(self, image: MetadataImage, broker_id: int) -> Address | None:
        """Return where brokers connect to a broker; None if it is not known, or not reachable on their listener."""
        broker = image.brokers.get(broker_id)
        endpoint = broker.endpoints.get(self.listener) if broker is not None else None
        return None if endpoint is None else (endpoint.host, endpoint.port)

    @property
    def listener(self) -> str:
        """Return the name of the listener that brokers use among themselves."""
        named = self._settings["inter.broker.listener.name"] or self._settings["security.inter.broker.protocol"]
        own = [endpoint.listener for endpoint in self._settings.advertised_listeners]
        return named.upper() if named.upper() in own or not own else own[0]

    def _peer(
        self,
        address: Address,
        timeout_ms: int,
        *,
        on_ready: Callable[[], None] | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> Peer:
        limits = PeerLimits(
            request_timeout_ms=timeout_ms,
            connect_timeout_ms=min(timeout_ms, self._settings["socket.connection.setup.timeout.ms"]),
            backoff_ms=20,
            max_backoff_ms=200,
        )
        return Peer(self._loop, address, self._name, self._random, limits, on_ready=on_ready, on_lost=on_lost)
