"""The parts of a node, as the API handlers, monitoring and background tasks use them.

`Broker` builds the parts and is the implementation. These modules import this one instead, so that the imports have one
direction: the assembly imports its parts, and no part imports the assembly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping
    from random import Random

    from broker.coordinator.group.group_coordinator import GroupCoordinator
    from broker.log_dirs.alter_log_dirs import ReplicaAlterLogDirs
    from broker.log_dirs.log_cleaner import LogCleaner
    from broker.metadata.broker_lifecycle import BrokerLifecycleManager
    from broker.metadata.controller_channel import ControllerChannel
    from broker.metadata.controller_tasks import ControllerTasks
    from broker.metadata.dynamic_config import DynamicConfig
    from broker.metadata.node_clients import NodeClients
    from broker.metadata.producer_id_manager import ProducerIdManager
    from broker.metadata.raft_driver import RaftDriver
    from broker.metadata.recently_fenced import RecentlyFenced
    from broker.monitoring.counters import Metrics
    from broker.monitoring.elections import ElectionCounts
    from broker.monitoring.request_errors import RequestErrors
    from broker.monitoring.request_times import Times
    from broker.monitoring.telemetry import Telemetry
    from broker.network.connection import Connection
    from broker.network.server import Server
    from broker.replication.replica_fetcher_manager import ReplicaFetcherManager
    from broker.replication.replica_manager import ReplicaManager
    from broker.runtime.purgatory import Purgatory
    from broker.runtime.rate_limited_log import LoggedOnce
    from broker.settings import Settings
    from controller.image import Endpoint, MetadataImage
    from protocol.api import Api, ApiKey
    from protocol.primitives import Part
    from storage.disk import Disk
    from storage.log_directory import LogDirectory
    from storage.log_manager import LogManager


class ListenerApis(Protocol):
    """The APIs of one listener (`broker.dispatch.Dispatcher`)."""

    @property
    def apis(self) -> Mapping[ApiKey, Api]:
        """The APIs that the listener serves."""

    async def embedded(self, frame: memoryview, connection: Connection) -> list[Part]:
        """Return the response frame of a request embedded in an Envelope."""
        ...


class Measurements(Protocol):
    """The measurements that only a monitored node takes (`broker.monitoring.monitor.Monitor`)."""

    clock: Callable[[], float]
    times: dict[int, Times]
    errors: RequestErrors
    elections: ElectionCounts


class Node(Protocol):
    """A node: a broker, a controller or both."""

    settings: Settings
    live: DynamicConfig
    node_id: int
    cluster_id: str
    endpoints: dict[str, Endpoint]
    phase: Literal["starting", "serving", "stopping"]
    loop: asyncio.AbstractEventLoop
    now_ms: Callable[[], int]
    random: Random
    disk: Disk
    logs: LogManager
    log_cleaner: LogCleaner
    purgatory: Purgatory
    replicas: ReplicaManager
    replication: ReplicaFetcherManager
    refused_transactions: LoggedOnce
    producer_ids: ProducerIdManager
    node_clients: NodeClients
    recently_fenced: RecentlyFenced
    controller: RaftDriver
    controller_tasks: ControllerTasks
    controller_channel: ControllerChannel
    lifecycle: BrokerLifecycleManager
    server: Server
    metrics: Metrics

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 before it."""

    @property
    def image(self) -> MetadataImage:
        """The committed metadata of the cluster."""

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator, created on first use."""

    @property
    def has_groups(self) -> bool:
        """Whether the group coordinator exists."""

    @property
    def moves(self) -> ReplicaAlterLogDirs:
        """The moves of replicas between the data directories."""

    @property
    def telemetry(self) -> Telemetry:
        """The client metrics subscriptions, created on first use."""

    @property
    def metadata_directory(self) -> LogDirectory:
        """The data directory that the metadata log is in."""

    @property
    def monitor(self) -> Measurements | None:
        """The measurements; None if the node is not monitored."""

    def dispatcher(self, listener: str) -> ListenerApis:
        """Return the dispatcher of a listener."""
        ...
