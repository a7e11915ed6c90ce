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
from broker.control.controlled_disk import ControlledDisk
from broker.control.gated_loop import GatedLoop
from broker.control.http_api import HttpApi
from broker.control.network_cuts import CutDispatcher, NetworkCuts
from broker.control.shifted_clock import ShiftedClock
from broker.control.transcript.recorder import TranscriptRecorder
from broker.network.listeners import join_host_port, split_host_port
from broker.shared_server import ServerTime

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable

    from broker.control.controlled import ControlledNode
    from broker.dispatch import WithErrors
    from broker.network.connection_protocol import Dispatch
    from broker.settings import Settings
    from broker.shared_server import RoleServer, SharedServer
    from storage.disk import Disk

_TOKEN_BYTES = 18

_log = logging.getLogger("broker.control")


class ControlServer:
    """The API, and the control that it serves."""

    def __init__(
        self,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        disk: Disk,
        block: Callable[[float], object],
    ) -> None:
        """Serve nothing before `start`; `now_ms` is the machine's wall clock, `block` sleeps in the calling thread."""
        clock = ShiftedClock(loop, now_ms, settings["barnabas.control.clock.ms"])
        self.disk = ControlledDisk(disk, block)
        """The disk of the node."""
        cuts = NetworkCuts(loop)
        self.control = Control(clock, self.disk, cuts)
        self.connecting: asyncio.AbstractEventLoop = GatedLoop(loop, cuts, self._node_at)  # type: ignore[abstract]
        """The event loop of connections to other nodes."""
        self.time = ServerTime(clock.now_ms, clock.loop, clock.sleep)
        """The time of the node: that of the control's clock."""
        self.token: str = settings["barnabas.control.token"] or ""
        """The token; empty before `start` if it is a random one."""
        self.url = ""
        """The API's address, with the token as the password; empty before `start`."""
        self._listener: str = settings["barnabas.control.listener"]
        self._bound: socket.socket | None = None
        self._http: HttpApi | None = None

    def use_socket(self, bound: socket.socket) -> None:
        """Listen on this bound socket instead of binding one."""
        self._bound = bound

    async def start(self, node: ControlledNode) -> None:
        """Serve the control of `node`; OSError if the address cannot be bound."""
        self.control.node = node
        self.token = self.token or node.shared.random.randbytes(_TOKEN_BYTES).hex()
        self._http = HttpApi(partial(answer, self.control), self.token)
        host, port = split_host_port(self._listener)
        port = await self._http.start(host, port, self._bound)
        self.url = f"http://:{self.token}@{join_host_port(host, port)}"
        _log.info("The control API is at http://%s", join_host_port(host, port))

    def faulty(self, role: RoleServer, shared: SharedServer, with_errors: WithErrors | None) -> Dispatch:
        """Return the dispatcher of a role's listeners, recorded, on whose requests the rules of faults act."""
        fetch_sessions = role.replicas.fetch_sessions if isinstance(role, BrokerServer) else None
        injector = self.control.faults.injector(role.dispatcher, shared, fetch_sessions, with_errors)
        recorder = TranscriptRecorder(injector, self.control.transcript, self.time.now_ms, shared.loop.time)
        return CutDispatcher(recorder, self.control.network, shared.loop)

    def _node_at(self, host: str, port: int) -> int | None:
        """Return the id of the node that listens at an address; None if it is unknown."""
        shared = self.control.node.shared
        for voter in shared.settings.voters:
            if (voter.host, voter.port) == (host, port):
                return voter.node_id
        for broker in shared.raft.image.brokers.values():
            if any((one.host, one.port) == (host, port) for one in broker.endpoints.values()):
                return broker.broker_id
        return None

    async def stop(self) -> None:
        """Stop listening, end the requests that wait, and remove all faults."""
        if self._http is not None:
            await self._http.stop()
        self.control.heal()
