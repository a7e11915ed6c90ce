"""The parts of a node in every role, and what a role adds its own parts to (Kafka: `SharedServer`).

Reading and writing the data directories, in this order:

    claim      lock the directories and check their owner, as the object is built
    read       read the metadata log and open the logs; a refused start leaves the directories as they were found
    close      sync and close the logs; the next start recovers nothing
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random, SystemRandom
from time import time_ns
from typing import TYPE_CHECKING, Literal, NamedTuple

from broker.dispatch import Dispatcher, WithErrors
from broker.log_dirs import maintenance
from broker.log_dirs.loading import open_found_logs
from broker.log_dirs.ownership import (
    CannotStart,
    claim_directories,
    format_directories,
    refuse_failed,
    refuse_if_full,
    release_directories,
)
from broker.metadata.controller_channel import ControllerChannel
from broker.metadata.dynamic_config import DynamicConfig
from broker.metadata.node_clients import NodeClients
from broker.metadata.raft_driver import RaftDriver
from broker.monitoring.counters import Metrics
from broker.network.connection_creation import ConnectionCreationLimits
from broker.network.connection_limits import server_limits
from broker.network.network_client import NetworkClient
from broker.network.socket_options import socket_options
from broker.network.socket_server import Server
from broker.security.listener_security import ListenerSecurity
from broker.settings import Settings
from broker.settings_warnings import warn_of_settings
from controller.configs.effective import effective_topic_config
from controller.configs.log_config import log_config
from controller.delegation_tokens import TokenHmacs, TokenRules
from controller.image import Endpoint, MetadataImage
from protocol.errors import InvariantError, KafkaError
from protocol.schema import Message
from storage.disk import Disk
from storage.log.corruption_checks import LogRefused
from storage.log_directory import LogDirectory
from storage.log_manager import LogManager

if TYPE_CHECKING:
    from broker.authorization.request_authorizer import RequestAuthorizer

_log = logging.getLogger("broker")


def wall_clock_ms() -> int:
    """Return the wall-clock time in milliseconds since 1970."""
    return time_ns() // 1_000_000


class ServerTime(NamedTuple):
    """The time of what clients see, which a test can advance (`broker.control.shifted_clock`)."""

    now_ms: Callable[[], int]
    """The wall clock."""
    timers: asyncio.AbstractEventLoop
    """The event loop of the timers of sessions and rebalances."""
    sleep: Callable[[float], Awaitable[None]]
    """The pause of a periodic task, in seconds."""


class SharedServer:
    """The data directories, the metadata with its Raft driver, the socket server, and the clients of other nodes."""

    def __init__(
        self,
        settings: Settings,
        disk: Disk,
        loop: asyncio.AbstractEventLoop,
        *,
        time: ServerTime,
        random: Random | None = None,
        clock: Callable[[], float] | None = None,
        max_descriptors: int,
        version: str,
        connecting: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Build the parts; the parameters are `broker.node.Node`'s. `CannotStart` if a directory cannot be used.

        `connecting` is the event loop of connections to other nodes, if it is another: one whose connections a test
        cuts.
        """
        self.version = version
        self.settings = settings
        self.disk = disk
        self.loop = loop
        self.now_ms, self.timers, self.sleep = time
        now_ms = self.now_ms
        self.random = random or SystemRandom()  # for secrets, too
        self.phase: Literal["starting", "serving", "stopping"] = "starting"
        self.dynamic_config = DynamicConfig(settings)
        self.metrics = Metrics()
        self.endpoints: dict[str, Endpoint] = {}
        self._max_descriptors = max_descriptors
        topic_defaults = effective_topic_config(MetadataImage(cluster_id=""), settings, "")
        self.logs = LogManager(disk, settings.log_dirs, log_config(topic_defaults), now_ms=now_ms, random=self.random)
        voters = settings.voters if len(settings.voters) > 1 else ()
        named = settings["barnabas.cluster.id"]
        self.cluster_id, self._is_new = claim_directories(self.logs, settings.node_id, self.random, named, voters)
        self.token_rules = _token_rules(settings)
        self.security = ListenerSecurity(
            settings, self.dynamic_config, disk, lambda: self.raft.image, now_ms, self.token_rules.hmacs, self.random
        )
        self.node_clients = NodeClients(settings, connecting or loop, self.random, version, self.security)
        limits = server_limits(settings, self.dynamic_config, max_descriptors)
        self.server = Server(loop, limits, self.metrics, socket_options(settings), clock)
        between_brokers = self.node_clients.listener if settings.is_broker else ""
        self.connection_creation = ConnectionCreationLimits(
            settings, self.dynamic_config, self.server, loop, between_brokers
        )
        self.raft = RaftDriver(
            disk,
            self.metadata_directory,
            settings,
            cluster_id=self.cluster_id,
            loop=loop,
            now_ms=now_ms,
            random=self.random,
            connect=self.node_clients.voter,
        )
        self.authorizer: RequestAuthorizer | None = None
        """The authorizer of requests; None if every client may do everything."""
        if settings["authorizer.class.name"]:
            from broker.authorization.assembly import new_authorizer

            self.authorizer = new_authorizer(settings, self.raft, loop)

    @property
    def metadata_directory(self) -> LogDirectory:
        """Return the data directory with the metadata log."""
        path = self.settings["metadata.log.dir"] or self.settings.log_dirs[0]
        return next(directory for directory in self.logs.directories if directory.path == path.rstrip("/"))

    def controller_channel(self, handle_locally: Callable[[Message], Awaitable[Message]]) -> ControllerChannel:
        """Return a channel to the active controller; `handle_locally` handles a request while this node leads."""

        def connect(node_id: int, on_change: Callable[[], None]) -> NetworkClient:
            return self.node_clients.controller(self.raft.voters.by_id[node_id], on_change)

        return ControllerChannel(self.raft, connect, handle_locally, self.loop)

    def load_security(self) -> None:
        """Read keys and certificates of all listeners that this node has or connects to; `SecurityError` on failure.

        Warnings about settings come before: a misspelt one may be why a key is missing.
        """
        warn_of_settings(self.settings)
        self.security.load(self._listeners_of_nodes())

    def check_security(self, image: MetadataImage) -> None:
        """Raise `SecurityError` if security settings altered as in `image` could not be used by this node."""
        altered = DynamicConfig(self.settings)
        altered.load(image)
        hmacs = self.token_rules.hmacs
        security = ListenerSecurity(self.settings, altered, self.disk, lambda: image, self.now_ms, hmacs, self.random)
        security.check(self._listeners_of_nodes())
        self.security.check_replacement(security)

    def _listeners_of_nodes(self) -> list[str]:
        """Return the listeners at which this node connects to other nodes."""
        own = [self.node_clients.listener] if self.settings.is_broker else []
        return [*self.settings.controller_listeners, *own]

    def apply_connection_limits(self) -> None:
        """Apply the current limits on connections, and on the rate of new ones, to the socket server."""
        self.connection_creation.apply(self.raft.image.client_quotas)
        self.server.limit(server_limits(self.settings, self.dynamic_config, self._max_descriptors))

    async def start(self) -> None:
        """Read all stored data, and join the quorum; controller listeners are bound. `CannotStart` on failure."""
        self.logs.make_room()
        format_directories(self.logs, self.cluster_id, self.settings.node_id)
        with refuse_if_full(self.metadata_directory):
            await self._read()
            await self.server.start(self.settings.controller_listeners)
            await self.raft.start()

    async def _read(self) -> None:
        """Read all stored data. Nothing is written before that is done, so a later start finds what this one found."""
        try:
            self.raft.read()
            await open_found_logs(self.logs, is_new=self._is_new)
            refuse_failed(self.metadata_directory)
        except (CannotStart, InvariantError, LogRefused) as error:
            self.release_directories()
            refuse_failed(self.metadata_directory)
            raise CannotStart(str(error)) from error

    def release_directories(self) -> None:
        """Unlock the directories, whose logs were not opened, and leave them as they were found."""
        release_directories(self.logs.directories)

    async def stop(self, broker_epoch: int) -> bool:
        """Close the metadata log and all logs; return whether that was clean. The other parts are stopped."""
        broken: list[LogDirectory] = []
        try:
            await self.raft.stop()
        except KafkaError as error:
            self.logs.problems.append(str(error))
            broken.append(self.metadata_directory)
        await maintenance.sync_all(self.logs, self.loop)
        clean = self.logs.close(clean=True, broker_epoch=broker_epoch, broken=broken)
        if clean:
            maintenance.report_problems(self.logs)
            _log.info("Stopped: %s", self.metrics)
        else:
            why = self.logs.problems[0] if self.logs.problems else "a data directory failed"
            _log.error("Unclean stop; the next start will recover the logs: %s", why)
        return clean


class RoleServer:
    """The shared parts that a role's handlers use, and the dispatcher of its listeners."""

    def __init__(
        self,
        shared: SharedServer,
        listener_type: Literal["broker", "controller"],
        controller_channel: ControllerChannel,
        with_errors: WithErrors | None,
    ) -> None:
        """Serve one type of listener; `with_errors` counts the errors in responses, for metrics."""
        self.settings = shared.settings
        self.node_id = shared.settings.node_id
        self.cluster_id = shared.cluster_id
        self.endpoints = shared.endpoints
        self.loop = shared.loop
        self.timers = shared.timers
        self.now_ms = shared.now_ms
        self.random = shared.random
        self.logs = shared.logs
        self.metrics = shared.metrics
        self.raft = shared.raft
        self.controller_channel = controller_channel
        self.authorizer = shared.authorizer
        self.token_rules = shared.token_rules
        self.dispatcher = Dispatcher(self, listener_type, with_errors, shared.authorizer)

    @property
    def image(self) -> MetadataImage:
        """Return the cluster's metadata as it is committed and applied."""
        return self.raft.image


def _token_rules(settings: Settings) -> TokenRules:
    """Return the settings of tokens."""
    secret_key = settings["delegation.token.secret.key"]
    return TokenRules(
        TokenHmacs(secret_key) if secret_key else None,
        settings["delegation.token.max.lifetime.ms"],
        settings["delegation.token.expiry.time.ms"],
    )
