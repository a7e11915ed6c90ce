"""The broker: its parts, and the order in which they start and stop.

    start   lock and read the data directories; bind the listeners, whose ports are part of the registration; start
            the Raft node; open the logs; register; apply the metadata's assignments; accept clients
    stop    accept no more; finish group commits, expire other deferred operations; answer the received requests;
            close the logs cleanly

Nothing is decided here. Handlers get the broker and reach its parts through it. Kafka: `BrokerServer`, `SharedServer`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Literal

from barnabas import __version__
from broker.background_tasks import BackgroundTasks
from broker.dispatch import Dispatcher, answer_here
from broker.log_dirs import maintenance
from broker.log_dirs.assignments_manager import AssignmentsManager
from broker.log_dirs.cordoned import cordoned_ids
from broker.log_dirs.loading import open_found_logs
from broker.log_dirs.log_cleaner import LogCleaner
from broker.log_dirs.missing import report_lost
from broker.log_dirs.ownership import (
    CannotStart,
    claim_directories,
    leave_directories,
    mark_directories,
    refuse_failed,
    saying_what_is_full,
)
from broker.metadata.broker_lifecycle import BrokerLifecycleManager, RegistrationError
from broker.metadata.controller_channel import ControllerChannel
from broker.metadata.controller_registration import ControllerRegistrationManager
from broker.metadata.controller_tasks import ControllerTasks
from broker.metadata.dynamic_config import DynamicConfig
from broker.metadata.eager_heartbeats import EagerHeartbeats
from broker.metadata.node_clients import NodeClients
from broker.metadata.producer_id_manager import ProducerIdManager, allocate_block
from broker.metadata.raft_driver import RaftDriver
from broker.metadata.recently_fenced import RecentlyFenced
from broker.metadata.registration_request import broker_registration, controller_registration
from broker.metadata.start_group import StartGroup, incarnation_id, until_known
from broker.monitoring.counters import Metrics
from broker.network.connection_limits import server_limits
from broker.network.listeners import join_host_port, split_host_port
from broker.network.server import BindError, Server, why_not_bound
from broker.network.socket_options import socket_options
from broker.replication.fetch_sessions import FetchSessions
from broker.replication.replica_fetcher_manager import ReplicaFetcherManager, fetch_limits
from broker.replication.replica_manager import ReplicaManager
from broker.runtime.purgatory_driver import PurgatoryDriver
from broker.runtime.rate_limited_log import LoggedOnce
from broker.settings_warnings import warn_of_settings
from controller.configs.effective import effective_topic_config
from controller.configs.log_config import log_config, topic_log_config
from controller.image import Endpoint, MetadataImage
from controller.topic_names import CONSUMER_OFFSETS
from protocol.errors import InvariantError, KafkaError
from protocol.records.metadata import RemoveTopicRecord
from storage.log.corruption_checks import LogRefused
from storage.log_manager import LogManager

if TYPE_CHECKING:
    from broker.coordinator.group.group_coordinator import GroupCoordinator
    from broker.log_dirs.alter_log_dirs import ReplicaAlterLogDirs
    from broker.monitoring.monitor import Monitor
    from broker.monitoring.telemetry import Telemetry
    from broker.settings import Settings
    from protocol.schema import Message
    from storage.disk import Disk
    from storage.log_directory import LogDirectory

_STOP_TIMEOUT_S = 10.0

_log = logging.getLogger("broker")


def wall_clock_ms() -> int:
    """Return the wall-clock time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Broker:
    """The parts of one broker."""

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
    ) -> None:
        """Create the parts.

        Clients get at most `max_descriptors` connections; the other file descriptors are for logs. `clock` is real time
        in seconds for `broker.network.busy_polling`; None where time is virtual. A broker of a `start_group` becomes
        ready once it knows the other brokers of the group.
        """
        self.settings = settings
        self.live = DynamicConfig(settings)
        self.node_id = settings.node_id
        self.loop = loop
        self.now_ms = now_ms
        self.random = random or Random()
        self.metrics = Metrics()
        self.cluster_id = ""
        self.endpoints: dict[str, Endpoint] = {}
        self.logs = LogManager(
            disk,
            settings.log_dirs,
            log_config(effective_topic_config(MetadataImage(cluster_id=""), settings, "")),
            now_ms=now_ms,
            random=self.random,
        )
        self._waiting = PurgatoryDriver(loop)
        self.purgatory = self._waiting.purgatory
        self.replicas = ReplicaManager(
            self.node_id,
            logs=self.logs,
            purgatory=self.purgatory,
            fetch_sessions=FetchSessions(
                settings["max.incremental.fetch.session.cache.slots"], self.purgatory, self.random
            ),
            loop=loop,
            now_ms=now_ms,
            topic_config=lambda image, topic: topic_log_config(image, settings, topic),
        )
        self.refused_transactions = LoggedOnce()
        self.producer_ids = ProducerIdManager(self._allocate_producer_ids)
        self.node_clients = NodeClients(settings, loop, self.random)
        self.recently_fenced = RecentlyFenced(loop.time)
        self.controller: RaftDriver
        self.controller_tasks: ControllerTasks
        self.controller_channel: ControllerChannel
        self.lifecycle: BrokerLifecycleManager
        self.replication: ReplicaFetcherManager
        self.assignments: AssignmentsManager
        self._eager_heartbeats: EagerHeartbeats
        self._registered: ControllerRegistrationManager
        self.disk = disk
        self._max_descriptors = max_descriptors
        self._start_group = start_group
        limits = server_limits(settings, self.live, max_descriptors)
        self.server = Server(loop, limits, self.metrics, socket_options(settings), clock)
        self._dispatchers: dict[str, Dispatcher] = {}
        self._bound: list[str] = []
        self.phase: Literal["starting", "serving", "stopping"] = "starting"
        self.monitor: Monitor | None = None
        self.log_cleaner = LogCleaner(disk, self.logs, self.live.__getitem__, loop, now_ms)
        self._chores = BackgroundTasks(self)

    @property
    def broker_epoch(self) -> int:
        """Return the broker epoch of this run's registration; -1 before it."""
        return self.lifecycle.broker_epoch if "lifecycle" in self.__dict__ else -1

    @property
    def image(self) -> MetadataImage:
        """Return the cluster's metadata as it is committed and applied."""
        return self.controller.image

    @cached_property
    def groups(self) -> GroupCoordinator:
        """Return the group coordinator, created on first use to keep the start short."""
        from broker.coordinator.group.coordinator_config import open_groups

        return open_groups(self)

    @cached_property
    def moves(self) -> ReplicaAlterLogDirs:
        """Return the mover of replicas between data directories (KIP-113), created if there are several directories."""
        from broker.log_dirs.alter_log_dirs import ReplicaAlterLogDirs

        return ReplicaAlterLogDirs(self.logs, self.assignments, live=self.live, loop=self.loop)

    @cached_property
    def telemetry(self) -> Telemetry:
        """Return the state of clients that push metrics (KIP-714), created with the first of them."""
        from broker.monitoring.telemetry import Telemetry

        return Telemetry(self.random, self.settings["telemetry.max.bytes"])

    @property
    def bootstrap(self) -> str:
        """Return the HOST:PORT for clients to connect to; on a controller-only node, that of its first listener."""
        names = (endpoint.listener for endpoint in self.settings.advertised_listeners)
        clients = (self.endpoints[name] for name in names if name not in self.settings.controller_listeners)
        first = next(clients, None) or next(iter(self.endpoints.values()))
        return join_host_port(first.host, first.port)

    def dispatcher(self, listener: str) -> Dispatcher:
        """Return the dispatcher of a listener."""
        return self._dispatchers[listener]

    # Start

    async def start(self) -> None:
        """Open, join and serve clients. `CannotStart` on failure, with the data directories left as they were found."""
        await self.open()
        await self.join()

    async def open(self) -> None:
        """Do the part of the start that needs no other node: read stored data, serve controllers. Raises as `start`."""
        voters = self.settings.voters if len(self.settings.voters) > 1 else ()
        named = self.settings["barnabas.cluster.id"]
        self.cluster_id, is_new = claim_directories(self.logs, self.node_id, self.random, named, voters)
        try:
            await self._start_monitoring()
            await self._bind()
        except BindError as error:
            leave_directories(self.logs.directories)
            raise CannotStart(str(error)) from error
        warn_of_settings(self.settings)
        self.logs.make_room()
        mark_directories(self.logs, self.cluster_id, self.node_id)
        self._make_controller()
        with saying_what_is_full(self.metadata_directory):
            await self._read(is_new)
            await self.server.start(self.settings.controller_listeners)
            await self.controller.start()
        self.controller_tasks.begin()
        if self.settings.is_controller and self.settings.voters:
            incarnation_id = self.random.randbytes(16)
            self._registered.begin(controller_registration(self.settings, incarnation_id, self.endpoints))

    async def join(self) -> None:
        """Register and serve clients. While it waits for other nodes it may be cancelled; `stop` must follow."""
        if self.settings.is_broker:
            with saying_what_is_full(self.metadata_directory):
                await self._join()
        self._chores.begin()
        await self.server.start()
        if self.settings.is_broker:
            await self.lifecycle.until_active()
            if self._start_group is not None:
                await until_known(self._start_group, self.controller, self.loop)
        self.phase = "serving"
        _log.info(
            "Barnabas %s: node %d of cluster %s listens on %s, data in %s",
            __version__,
            self.node_id,
            self.cluster_id,
            ", ".join(self._bound),
            ", ".join(self.settings.log_dirs),
        )

    def _make_controller(self) -> None:
        self.controller = RaftDriver(
            self.disk,
            self.metadata_directory,
            self.settings,
            cluster_id=self.cluster_id,
            loop=self.loop,
            now_ms=self.now_ms,
            random=self.random,
            connect=self.node_clients.voter,
        )
        if self.monitor is not None:
            self.controller.subscribe(self.monitor.elections.apply)
        self.controller_tasks = ControllerTasks(
            self.controller,
            self.settings,
            self.loop,
            broker_epoch=lambda: self.broker_epoch,
            has_ended=self.node_clients.has_ended,
        )
        self.controller_channel = ControllerChannel(
            self.controller,
            connect=lambda node_id: self.node_clients.controller(node_id, self._controller_came_or_went),
            answer_here=lambda request: answer_here(self, request),
            loop=self.loop,
        )
        self._registered = ControllerRegistrationManager(self.controller, self.controller_channel.call, self.loop)

    def _controller_came_or_went(self) -> None:
        if "lifecycle" in self.__dict__:
            self.lifecycle.send_now()

    @property
    def metadata_directory(self) -> LogDirectory:
        """Return the data directory with the metadata log."""
        path = self.settings["metadata.log.dir"] or self.settings.log_dirs[0]
        return next(directory for directory in self.logs.directories if directory.path == path.rstrip("/"))

    async def _bind(self) -> None:
        """Bind every listener; the ports to advertise are known from then on."""
        settings = self.settings
        advertised = {endpoint.listener: endpoint for endpoint in settings.advertised_listeners}
        for listener in settings.listeners:
            name = listener.listener
            is_controller = name in settings.controller_listeners
            with_errors = None if self.monitor is None else self.monitor.with_errors
            dispatcher = Dispatcher(self, "controller" if is_controller else "broker", with_errors)
            self._dispatchers[name] = dispatcher
            dispatch = dispatcher if self.monitor is None else self.monitor.timed(dispatcher)
            port = await self.server.bind(name, listener.host, listener.port, dispatch)
            self._bound.append(f"{name}://{join_host_port(listener.host or '*', port)}")
            told = advertised.get(name, listener)
            self.endpoints[name] = Endpoint(told.host or socket.gethostname(), told.port or port)

    async def _start_monitoring(self) -> None:
        """Start the metrics and probe server, if configured, so that it serves during the rest of the start."""
        address = self.settings["barnabas.metrics.listener"]
        if not address:
            return
        from broker.monitoring.monitor import Monitor

        host, port = split_host_port(address)
        self.monitor = Monitor(self, time.perf_counter)
        try:
            port = await self.monitor.start(host, port)
        except OSError as error:
            self.monitor = None
            raise BindError(f"cannot listen on {address} for metrics: {why_not_bound(error)}") from error
        _log.info("Metrics are at http://%s/metrics", join_host_port(host or "*", port))

    async def _read(self, is_new: bool) -> None:
        """Read all stored data. Nothing is written before that is done, so a later start finds what this one found."""
        try:
            self.controller.read()
            await open_found_logs(self.logs, is_new=is_new)
            refuse_failed(self.metadata_directory)
        except (CannotStart, InvariantError, LogRefused) as error:
            leave_directories(self.logs.directories)
            refuse_failed(self.metadata_directory)
            raise CannotStart(str(error)) from error

    async def _join(self) -> None:
        """Register with the controller, apply the metadata's assignments, and start sending heartbeats."""
        controller, settings = self.controller, self.settings
        self.lifecycle = BrokerLifecycleManager(
            self.node_id,
            self.controller_channel.call,
            self.loop,
            controller_change=controller.leader_change,
            applied_offset=lambda: controller.applied_offset,
            offline_directories=lambda: [one.directory_id for one in self.logs.directories if one.failure is not None],
            cordoned_directories=lambda: cordoned_ids(self.logs.directories, self.live["cordoned.log.dirs"]),
            heartbeat_interval_s=settings["broker.heartbeat.interval.ms"] / 1000,
            session_timeout_s=settings["broker.session.timeout.ms"] / 1000,
        )
        incarnation = incarnation_id(self.random.randbytes(16), self._start_group)
        registration = broker_registration(settings, self.cluster_id, incarnation, self.endpoints, self.logs.online)
        try:
            epoch = await self.lifecycle.register(
                registration, settings["initial.broker.registration.timeout.ms"] / 1000
            )
        except RegistrationError as error:
            raise CannotStart(str(error)) from error
        await controller.until_applied(epoch)
        self.live.follow(
            ("max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides"), self._follow_limits
        )
        self.live.follow(("cordoned.log.dirs",), self.lifecycle.send_now)
        self.live.load(controller.image)
        self._follow_limits()
        controller.subscribe(self.live.apply)
        report_lost(controller.image, self.node_id, self.logs)
        self.node_clients.follow(controller.image)
        controller.subscribe(self.node_clients.apply)
        controller.subscribe(self.recently_fenced.apply)
        self.replication = self._make_replication()
        self.replication.start()
        self.replicas.load(controller.image)
        controller.subscribe(self.replicas.apply)
        controller.subscribe(self.replication.apply)
        controller.subscribe(self._forget_topics)
        self.replicas.on_leadership(CONSUMER_OFFSETS, self._lead_groups)
        self._eager_heartbeats = EagerHeartbeats(
            self.node_id, self.loop, until_applied=controller.until_applied, send_now=self.lifecycle.send_now
        )
        controller.subscribe(self._eager_heartbeats.apply)
        self.lifecycle.begin()
        self.assignments = AssignmentsManager(self.node_id, epoch, self.logs, self.controller_channel.call, self.loop)
        self.assignments.look_at(controller.image, self.replicas.partitions)
        controller.subscribe(self.assignments.apply)
        if len(self.logs.directories) > 1:
            self.moves.start(self.replicas)

    def _make_replication(self) -> ReplicaFetcherManager:
        return ReplicaFetcherManager(
            self.loop,
            self.node_id,
            self.replicas,
            cluster_id=self.cluster_id,
            open_peer=self.node_clients.broker,
            send_to_controller=self.controller_channel.send,
            broker_epoch=lambda: self.broker_epoch,
            limits=fetch_limits(self.settings),
            lag_max_ms=self.settings["replica.lag.time.max.ms"],
        )

    async def create_topic(self, name: str, partitions: int | None) -> None:
        """Create a topic unless it exists; `CannotStart` if that fails."""
        from broker.metadata.topic_creation import create_if_missing

        try:
            await create_if_missing(self, name, partitions)
        except KafkaError as error:
            raise CannotStart(f"--topic {name}: {error.message}") from error

    # Stop

    async def stop(self, *, hand_over: bool = True) -> bool:
        """Answer the received requests, close the data cleanly, and return whether the stop was clean.

        With `hand_over` (and `controlled.shutdown.enable`), leaderships are moved first; not if the other brokers stop
        too.
        """
        self.phase = "stopping"
        await self._leave(hand_over and self.settings["controlled.shutdown.enable"])
        if self.has_groups:
            self.groups.runtime.stop()
        all_answered = self.loop.create_task(self.server.stop(_STOP_TIMEOUT_S))
        with suppress(TimeoutError):  # wait at most half the time for group commits, then expire the requests
            await asyncio.wait_for(self.replicas.group_commit.drain(), _STOP_TIMEOUT_S / 2)
        self.purgatory.expire_all()  # expire: no event will complete the deferred operations any more
        await all_answered
        if self.monitor is not None:
            await self.monitor.stop()
        self._waiting.stop()
        await self.replicas.group_commit.stop()
        await self._chores.stop()
        if "moves" in self.__dict__:
            await self.moves.stop()
        broken: list[LogDirectory] = []
        try:
            await self.controller.stop()
        except KafkaError as error:
            self.logs.problems.append(str(error))
            broken.append(self.metadata_directory)
        await maintenance.sync_all(self.logs, self.loop)
        clean = self.logs.close(clean=True, broker_epoch=self.broker_epoch, broken=broken)
        if clean:
            maintenance.report_problems(self.logs)
            _log.info("Stopped: %s", self.metrics)
        else:
            why = self.logs.problems[0] if self.logs.problems else "a data directory failed"
            _log.error("Unclean stop; the next start will recover the logs: %s", why)
        return clean

    async def _leave(self, hand_over: bool) -> None:
        """Move leaderships to other brokers if `hand_over` and there are any; then leave the cluster."""
        others = any(broker.active for number, broker in self.image.brokers.items() if number != self.node_id)
        if "lifecycle" in self.__dict__:
            may_ask = hand_over and others and not self.lifecycle.fenced
            if may_ask and not await self.lifecycle.shut_down(_STOP_TIMEOUT_S):
                _log.warning("Controlled shutdown timed out; stopping anyway")
            await self.lifecycle.stop()
        if "replication" in self.__dict__:
            self.assignments.stop()
            self._eager_heartbeats.stop()
            self.replication.stop()
        await self._registered.stop()
        await self.controller_tasks.stop()
        await self.controller.resign()
        self.controller_channel.close()

    # Callbacks of the parts

    @property
    def has_groups(self) -> bool:
        """Return whether the group coordinator has been created."""
        return "groups" in self.__dict__

    def _lead_groups(self, index: int, leader_epoch: int | None) -> None:
        self.groups.runtime.leadership_changed(index, leader_epoch)

    async def _allocate_producer_ids(self) -> range:
        timeout_s = self.settings["request.timeout.ms"] / 1000
        return await allocate_block(self.node_id, self.broker_epoch, self.controller_channel, timeout_s)

    def _forget_topics(self, old: MetadataImage, _new: MetadataImage, records: tuple[Message, ...]) -> None:
        removed = (old.topic_by_id(record.topic_id) for record in records if isinstance(record, RemoveTopicRecord))
        topics = [(topic.name, topic.topic_id) for topic in removed if topic is not None]
        if topics and self.has_groups:
            self.groups.topics_deleted(topics)

    def _follow_limits(self) -> None:
        self.server.limit(server_limits(self.settings, self.live, self._max_descriptors))
