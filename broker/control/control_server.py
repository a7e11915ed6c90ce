"""The control API of a node, from its start to its stop.

A node creates it before its other parts, at whose seams the control stands. Without `barnabas.control.listener` nothing
of this package is imported.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from broker.broker_server import BrokerServer
from broker.control.api import answer
from broker.control.control import Control
from broker.control.http_api import HttpApi
from broker.network.listeners import join_host_port, split_host_port

if TYPE_CHECKING:
    import socket

    from broker.control.controlled import ControlledNode
    from broker.dispatch import WithErrors
    from broker.network.connection_protocol import Dispatch
    from broker.shared_server import RoleServer, SharedServer

_TOKEN_BYTES = 18

_log = logging.getLogger("broker.control")


class ControlServer:
    """The API, and the control that it serves."""

    def __init__(self, shared: SharedServer) -> None:
        """Serve nothing before `start`. Without `barnabas.control.token` the token is random."""
        settings, random = shared.settings, shared.random
        self._shared = shared
        self.control = Control()
        self.token: str = settings["barnabas.control.token"] or random.randbytes(_TOKEN_BYTES).hex()
        self.url = ""
        """The API's address, with the token as the password; empty before `start`."""
        self._listener: str = settings["barnabas.control.listener"]
        self._bound: socket.socket | None = None
        self._http = HttpApi(partial(answer, self.control), self.token)

    def use_socket(self, bound: socket.socket) -> None:
        """Listen on this bound socket instead of binding one."""
        self._bound = bound

    async def start(self, node: ControlledNode) -> None:
        """Serve the control of `node`; OSError if the address cannot be bound."""
        self.control.node = node
        host, port = split_host_port(self._listener)
        port = await self._http.start(host, port, self._bound)
        self.url = f"http://:{self.token}@{join_host_port(host, port)}"
        _log.info("The control API is at http://%s", join_host_port(host, port))

    def faulty(self, role: RoleServer, with_errors: WithErrors | None) -> Dispatch:
        """Return the dispatcher of a role's listeners, on whose requests the rules of faults act."""
        fetch_sessions = role.replicas.fetch_sessions if isinstance(role, BrokerServer) else None
        return self.control.faults.injector(role.dispatcher, self._shared, fetch_sessions, with_errors)

    async def stop(self) -> None:
        """Stop listening, end the requests that wait, and remove all faults."""
        await self._http.stop()
        self.control.faults.clear()
