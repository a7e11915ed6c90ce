"""A node: its parts by role, and the order in which they start and stop (Kafka: `KafkaRaftServer`).

build   lock and read the data directories' identity; create the parts
open    bind the listeners, whose ports are part of the registration; start the Raft node; open the logs
join    register; apply the metadata's assignments; accept clients
stop    accept no more; finish group commits, expire other deferred operations; answer the received requests;
        close the logs cleanly
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker.background_tasks import BackgroundTasks
from broker.broker_server import BrokerServer
from broker.controller_server import ControllerServer
from broker.log_dirs.ownership import CannotStart, refuse_if_full
from broker.network.listeners import SECURITY_PROTOCOLS, join_host_port, split_host_port
from broker.network.network_client import UNKNOWN_VERSION
from broker.network.socket_server import BindError, why_not_bound
from broker.security.listener_security import METRICS
from broker.security.security_error import SecurityError
from broker.shared_server import RoleServer, ServerTime, SharedServer, wall_clock_ms
from controller.image import Endpoint, MetadataImage
from protocol.errors import InvariantError, KafkaError

if TYPE_CHECKING:
    from random import Random

    from broker.control.control_server import ControlServer
    from broker.metadata.start_group import StartGroup
    from broker.monitoring.monitor import Monitor
    from broker.network.connection_protocol import Dispatch
    from broker.network.listeners import ListenerAddress
    from broker.quotas.quota_manager import QuotaManager
    from broker.settings import Settings
    from storage.disk import Disk

_STOP_TIMEOUT_S = 10.0

_log = logging.getLogger("broker")


class Node:
    """A process: `shared` is in every role, `controller` and `broker` are None without that role."""

    def __init__(
        self,
        settings: Settings,
        disk: Disk,
        loop: asyncio.AbstractEventLoop,
        *,
        now_ms: Callable[[], int] = wall_clock_ms,
        random: Random | None = None,
        clock: Callable[[], float] | None = None,
        max_descriptors: int = sys.maxsize,
        start_group: StartGroup | None = None,
        version: str = UNKNOWN_VERSION,
    ) -> None:
        """Create the parts. `CannotStart` if a data directory cannot be used; all are left as they were found then.

        Clients get at most `max_descriptors` connections; the other file descriptors are for logs. `clock` is real time
        in seconds for `broker.network.busy_polling`; None where time is virtual. A broker of a `start_group` becomes
        ready once it knows the other brokers of the group. `version` is the program's, which other nodes get too.
        """
        self.settings = settings
        time_of_clients = ServerTime(now_ms, loop, asyncio.sleep)
        self.control: ControlServer | None = None
        if settings["barnabas.control.listener"]:
            from broker.control.control_server import ControlServer

            self.control = ControlServer(settings, loop, now_ms, disk, time.sleep)
            time_of_clients, disk = self.control.time, self.control.disk
        self.shared = shared = SharedServer(
            settings,
            disk,
            loop,
            time=time_of_clients,
            random=random,
            clock=clock,
            max_descriptors=max_descriptors,
            version=version,
            connecting=None if self.control is None else self.control.connecting,
        )
        self.monitor: Monitor | None = None
        if settings["barnabas.metrics.listener"]:
            from broker.monitoring.monitor import Monitor

            self.monitor = Monitor(self, time.perf_counter)
            shared.raft.subscribe(self.monitor.elections.apply)
        with_errors = None if self.monitor is None else self.monitor.with_errors
        self.controller: ControllerServer | None = None
        if settings.is_controller:
            self.controller = ControllerServer(shared, lambda: self.broker_epoch, start_group, with_errors)
        self.broker: BrokerServer | None = None
        if settings.is_broker:
            self.broker = BrokerServer(shared, self.controller, start_group=start_group, with_errors=with_errors)
        roles: list[RoleServer] = [role for role in (self.controller, self.broker) if role is not None]
        self._role = roles[0]  # which does not matter: they share the controller channel
        self._tasks = BackgroundTasks(shared, self.broker)
        self._dispatchers: dict[str, Dispatch] = {}
        """Those of the listeners, for authenticated clients and without quotas."""
        self._throttled: dict[str, Dispatch] | None = None
        """Those with quotas; None before there were any."""
        self._has_quotas = False
        self.quotas: QuotaManager | None = None
        """What clients used of their quotas; None before there were any."""
        shared.raft.subscribe(self._apply_quotas)
        self._bound: list[str] = []

    @property
    def broker_epoch(self) -> int:
        """Return the broker epoch of this run's registration; -1 before it, and without a broker."""
        return -1 if self.broker is None else self.broker.broker_epoch

    @property
    def bootstrap(self) -> str:
        """Return the HOST:PORT for clients to connect to; on a controller-only node, that of its first listener."""
        endpoints = self.shared.endpoints
        names = (endpoint.listener for endpoint in self.settings.advertised_listeners)
        clients = (endpoints[name] for name in names if name not in self.settings.controller_listeners)
        first = next(clients, None) or next(iter(endpoints.values()))
        return join_host_port(first.host, first.port)

    async def start(self) -> None:
        """Open, join and serve clients. `CannotStart` on failure, with the data directories left as they were found."""
        await self.open()
        await self.join()

    async def open(self) -> None:
        """Do the part of the start that needs no other node: read stored data, serve controllers. Raises as `start`."""
        try:
            self.shared.load_security()
            await self.shared.security.load_token_keys(self.shared.loop)
            await self._start_control()
            await self._start_monitor()
            for listener in self.settings.listeners:
                await self._bind(listener)
        except (BindError, SecurityError) as error:
            self.shared.release_directories()
            raise CannotStart(str(error)) from error
        await self.shared.start()
        if self.controller is not None:
            self.controller.start()

    async def join(self) -> None:
        """Register and serve clients. While it waits for other nodes it may be cancelled; `stop` must follow."""
        shared = self.shared
        if self.broker is not None:
            with refuse_if_full(shared.metadata_directory):
                await self.broker.start()
        self._tasks.begin()
        shared.security.is_serving = True
        await shared.server.start()
        if self.broker is not None:
            await self.broker.until_active()
        shared.phase = "serving"
        _log.info(
            "Barnabas %s: node %d of cluster %s listens on %s, data in %s",
            shared.version,
            self.settings.node_id,
            shared.cluster_id,
            ", ".join(self._bound),
            ", ".join(self.settings.log_dirs),
        )

    async def _start_control(self) -> None:
        """Start the control API, if configured."""
        if self.control is None:
            return
        try:
            await self.control.start(self)
        except OSError as error:
            address = self.settings["barnabas.control.listener"]
            raise BindError(f"cannot listen on {address} for the control API: {why_not_bound(error)}") from error

    async def _start_monitor(self) -> None:
        """Start the metrics and probe server, if configured, so that it serves during the rest of the start."""
        if self.monitor is None:
            return
        address = self.settings["barnabas.metrics.listener"]
        host, port = split_host_port(address)
        try:
            tls = self.shared.security.tls_of(METRICS)
            context = None if tls is None else lambda: tls.context
            port = await self.monitor.start(host, port, self.settings["barnabas.metrics.token"], context)
        except OSError as error:
            raise BindError(f"cannot listen on {address} for metrics: {why_not_bound(error)}") from error
        scheme = "http" if tls is None else "https"
        _log.info("Metrics are at %s://%s/metrics", scheme, join_host_port(host or "*", port))

    async def _bind(self, listener: ListenerAddress) -> None:
        """Bind a listener; the port to advertise is known from then on."""
        name = listener.listener
        role = self.controller if name in self.settings.controller_listeners else self.broker
        if role is None:
            raise InvariantError(f"listener {name} belongs to a role that this node does not have")
        shared = self.shared
        dispatch: Dispatch = role.dispatcher
        if self.control is not None:
            with_errors = None if self.monitor is None else self.monitor.with_errors
            dispatch = self.control.faulty(role, self.shared, with_errors)
        if self.monitor is not None:
            dispatch = self.monitor.timed(dispatch)
        security = shared.security
        self._dispatchers[name] = dispatch
        dispatch, first_request_bytes = security.behind_sasl(name, dispatch, shared.loop)
        port = await self.shared.server.bind(
            name, listener.host, listener.port, dispatch, security.tls_of(name), first_request_bytes
        )
        self._bound.append(f"{name}://{join_host_port(listener.host or '*', port)}")
        advertised = next((one for one in self.settings.advertised_listeners if one.listener == name), listener)
        number = SECURITY_PROTOCOLS.index(listener.security_protocol)
        self.shared.endpoints[name] = Endpoint(advertised.host or socket.gethostname(), advertised.port or port, number)

    def _apply_quotas(self, old: MetadataImage, new: MetadataImage, _records: Iterable[object]) -> None:
        """Choose the dispatchers: without quotas of requests, throttling would still cost 2 % of a Produce."""
        if new.client_quotas is not old.client_quotas:
            self.shared.connection_creation.apply(new.client_quotas)
        # Quotas of addresses limit connections, not requests.
        if any(entity[0][0] != "ip" for entity in new.client_quotas) is self._has_quotas:
            return
        self._has_quotas = not self._has_quotas
        if self._has_quotas and self._throttled is None:
            self._throttled = self._throttling()
        chosen = self._throttled if self._has_quotas else None
        for name, dispatch in (chosen or self._dispatchers).items():
            if not self.shared.security.dispatch_with(name, dispatch):
                self.shared.server.dispatch_with(name, dispatch)

    def _throttling(self) -> dict[str, Dispatch]:
        """Return the dispatchers with quotas; imported only now, as few clusters have any."""
        from broker.monitoring.rate import SampleWindow
        from broker.quotas.quota_manager import QuotaManager
        from broker.quotas.throttling_dispatcher import ThrottlingDispatcher

        shared, settings = self.shared, self.settings
        window = SampleWindow(settings["quota.window.num"], 1000 * settings["quota.window.size.seconds"])
        self.quotas = quotas = QuotaManager(window)
        return {
            name: ThrottlingDispatcher(dispatch, quotas, shared.raft, shared.loop, time.perf_counter, shared.authorizer)
            for name, dispatch in self._dispatchers.items()
        }

    async def create_topic(self, name: str, partitions: int | None) -> None:
        """Create a topic unless it exists; `CannotStart` if that fails."""
        from broker.metadata.topic_creation import create_if_missing

        try:
            await create_if_missing(self._role, name, partitions)
        except KafkaError as error:
            raise CannotStart(f"--topic {name}: {error.message}") from error

    async def stop(self, *, hand_over: bool = True) -> bool:
        """Answer the received requests, close the data cleanly, and return whether the stop was clean.

        With `hand_over` (and `controlled.shutdown.enable`), leaderships are moved first; not if the other brokers stop
        too.
        """
        shared, broker = self.shared, self.broker
        shared.phase = "stopping"
        if self.control is not None:
            await self.control.stop()
        if broker is not None:
            hand_over = hand_over and self.settings["controlled.shutdown.enable"]
            await broker.leave(hand_over=hand_over, timeout_s=_STOP_TIMEOUT_S)
        if self.controller is not None:
            await self.controller.stop()
        await shared.raft.resign()
        self._role.controller_channel.close()
        if broker is not None and broker.group_coordinator is not None:
            broker.group_coordinator.runtime.stop()
        if broker is not None and broker.transaction_coordinator is not None:
            broker.transaction_coordinator.stop()
        all_answered = shared.loop.create_task(shared.server.stop(_STOP_TIMEOUT_S))
        if broker is not None:
            await broker.expire_requests(_STOP_TIMEOUT_S / 2)
        await all_answered
        if self.monitor is not None:
            await self.monitor.stop()
        if broker is not None:
            await broker.stop()
        await self._tasks.stop()
        if broker is not None and broker.moves is not None:
            await broker.moves.stop()
        return await shared.stop(self.broker_epoch)
