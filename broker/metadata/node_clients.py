"""Node clients: connections to the cluster's other nodes, and the check whether a broker's process has exited.

Controllers are at the addresses in `controller.quorum.voters`, or else in the voter set; brokers at their registered
endpoint for the listener that `inter.broker.listener.name` or `security.inter.broker.protocol` names, else for the
first advertised listener of this node. Each user of a connection has its own, so that no request waits behind another
user's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.metadata.suspected_leaders import SuspectedLeaders
from broker.network.network_client import UNKNOWN_VERSION, Address, NetworkClient, NetworkClientLimits

if TYPE_CHECKING:
    from random import Random

    from broker.security.listener_security import ListenerSecurity
    from broker.settings import Settings
    from controller.image import BrokerImage, MetadataImage
    from controller.raft.voters import Voter, VoterEndpoint
    from protocol.schema import Message

_UNKNOWN_ADDRESS = ("", 0)

# Controllers' responses are far below it. A broker's response holds at least one whole batch: any frame size.
_MAX_CONTROLLER_RESPONSE_BYTES = 100 << 20
_MAX_BROKER_RESPONSE_BYTES = (1 << 31) - 1
_FAILOVER_S = 0.2  # for a quorum election and the commit of new leaders


class NodeClients:
    """Makes connections to other nodes."""

    def __init__(
        self,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        version: str = UNKNOWN_VERSION,
        security: ListenerSecurity | None = None,
    ) -> None:
        """`version` is this program's, sent to the other nodes; `security` is that of connections to listeners."""
        self._security = security
        self._settings = settings
        self._version = version
        self._loop = loop
        self._random = random
        self._voters: dict[int, Address] = {voter.node_id: (voter.host, voter.port) for voter in settings.voters}
        self._addresses: dict[int, Address] = {}
        self._broker_clients: list[tuple[int, NetworkClient]] = []
        self.suspects = SuspectedLeaders(loop, settings["barnabas.broker.disconnect.grace.ms"] / 1000 + _FAILOVER_S)
        self._name = f"{'broker' if settings.is_broker else 'controller'}-{settings.node_id}"

    def voter(self, voter: Voter, on_lost: Callable[[], None], on_refused: Callable[[], None]) -> NetworkClient:
        """Return a connection for Raft requests."""
        timeout_ms = self._settings["controller.quorum.request.timeout.ms"]
        address = self._voter_address(voter)
        listener = self._controller_listener(voter)
        return self._client(
            "controller", voter.voter_id, listener, address, timeout_ms, on_lost=on_lost, on_refused=on_refused
        )

    def controller(self, voter: Voter, on_change: Callable[[], None]) -> NetworkClient:
        """Return a connection for requests to the active controller; `on_change` is called when it opens or breaks.

        A voter's Raft connection to the same node logs that the node is gone.
        """
        return self._client(
            "controller",
            voter.voter_id,
            self._controller_listener(voter),
            self._voter_address(voter),
            self._settings["controller.socket.timeout.ms"],
            on_ready=on_change,
            on_lost=on_change,
            loss_level=logging.DEBUG if self._settings.is_controller else logging.INFO,
        )

    def _voter_address(self, voter: Voter) -> Address:
        """Return the configured address, else that of the first controller listener that this node knows."""
        if voter.voter_id in self._voters:
            return self._voters[voter.voter_id]
        endpoint = self._voter_endpoint(voter)
        return endpoint.host, endpoint.port

    def _voter_endpoint(self, voter: Voter) -> VoterEndpoint:
        names = self._settings.controller_listeners
        return next((each for each in voter.endpoints if each.name.upper() in names), voter.endpoints[0])

    def _controller_listener(self, voter: Voter) -> str:
        """Return the name of the listener by which this node connects to controllers: the first that it lists."""
        listed: tuple[str, ...] = self._settings["controller.listener.names"]
        return (listed[0] if listed else self._voter_endpoint(voter).name).upper()

    def broker(self, broker_id: int, *, may_be_idle: bool = False) -> NetworkClient:
        """Return a connection to a broker; its address follows the broker's registration.

        The loss of one that `may_be_idle` does not make the broker a suspect: idle ones are closed after
        `connections.max.idle.ms`.
        """
        address = self._addresses.get(broker_id, _UNKNOWN_ADDRESS)
        timeout_ms = self._settings["replica.socket.timeout.ms"]
        client = self._client(
            "broker",
            broker_id,
            self.listener,
            address,
            timeout_ms,
            on_ready=None if may_be_idle else partial(self.suspects.reached, broker_id),
            on_lost=None if may_be_idle else partial(self.suspects.lost, broker_id),
            max_response_bytes=_MAX_BROKER_RESPONSE_BYTES,
        )
        self._broker_clients.append((broker_id, client))
        return client

    async def has_exited(self, broker: BrokerImage) -> bool:
        """Return whether a broker's process has exited: a connection to its address is refused."""
        endpoint = broker.endpoints.get(self.listener)
        if endpoint is None:
            return False
        timeout_s = self._settings["socket.connection.setup.timeout.ms"] / 1000
        try:
            async with asyncio.timeout(timeout_s):
                transport, _ = await self._loop.create_connection(asyncio.Protocol, endpoint.host, endpoint.port)
        except ConnectionRefusedError:
            return True
        except (OSError, UnicodeError):  # unreachable, or not a valid name: the process may still run
            return False
        transport.abort()
        return False

    def update_addresses(self, image: MetadataImage) -> None:
        """Update the brokers' addresses from `image`."""
        self._addresses = {
            broker_id: (broker.endpoints[self.listener].host, broker.endpoints[self.listener].port)
            for broker_id, broker in image.brokers.items()
            if self.listener in broker.endpoints
        }
        self._broker_clients = [(broker_id, client) for broker_id, client in self._broker_clients if not client.closed]
        for broker_id, client in self._broker_clients:
            client.address = self._addresses.get(broker_id, client.address)

    def apply(self, before: MetadataImage, image: MetadataImage, _records: tuple[Message, ...]) -> None:
        """Update addresses and suspects after a change of the metadata."""
        if image.brokers is not before.brokers:
            self.update_addresses(image)
            self.suspects.drop_inactive(image)

    @property
    def listener(self) -> str:
        """Return the name of the listener for traffic between brokers."""
        named = self._settings["inter.broker.listener.name"] or self._settings["security.inter.broker.protocol"]
        controllers = self._settings.controller_listeners
        own = [one.listener for one in self._settings.advertised_listeners if one.listener not in controllers]
        return named.upper() if named.upper() in own or not own else own[0]

    def _client(
        self,
        role: str,
        node_id: int,
        listener: str,
        address: Address,
        timeout_ms: int,
        *,
        on_ready: Callable[[], None] | None = None,
        on_lost: Callable[[], None] | None = None,
        on_refused: Callable[[], None] | None = None,
        max_response_bytes: int = _MAX_CONTROLLER_RESPONSE_BYTES,
        loss_level: int = logging.INFO,
    ) -> NetworkClient:
        limits = NetworkClientLimits(
            request_timeout_ms=timeout_ms,
            connect_timeout_ms=min(timeout_ms, self._settings["socket.connection.setup.timeout.ms"]),
            backoff_ms=20,
            max_backoff_ms=200,
            max_response_bytes=max_response_bytes,
        )
        return NetworkClient(
            self._loop,
            address,
            self._name,
            self._random,
            limits,
            node_id=node_id,
            role=role,
            on_ready=on_ready,
            on_lost=on_lost,
            on_refused=on_refused,
            loss_level=loss_level,
            version=self._version,
            **self._security_of(role, listener),
        )

    def _security_of(self, role: str, listener: str) -> dict[str, Any]:
        """Return the TLS context and the login of connections to a listener of a controller or broker."""
        if self._security is None:
            return {}
        return {
            "tls": partial(self._security.client_context, listener),
            "login": partial(self._security.login, role, listener),
        }
