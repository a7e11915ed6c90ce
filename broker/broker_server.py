"""The parts of a broker, built in the order of their dependencies (Kafka: `BrokerServer`).

`start` registers with the controller, subscribes the parts to the metadata in the order in which they must apply it,
and sends heartbeats. Handlers of clients' requests reach the parts through this object.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from broker.log_dirs.assignments_manager import AssignmentsManager
from broker.log_dirs.log_cleaner import LogCleaner
from broker.log_dirs.missing import report_missing
from broker.log_dirs.ownership import CannotStart
from broker.metadata.broker_lifecycle import BrokerLifecycleManager, RegistrationError
from broker.metadata.controller_event_queue import not_controller
from broker.metadata.eager_heartbeats import EagerHeartbeats
from broker.metadata.producer_id_manager import ProducerIdManager, allocate_block
from broker.metadata.recently_fenced import RecentlyFenced
from broker.metadata.registration_request import broker_registration
from broker.metadata.start_group import StartGroup, incarnation_id, until_known
from broker.monitoring.rate import SampleWindow
from broker.quotas.replication_quota import FOLLOWER_RATE, LEADER_RATE, ReplicationQuota
from broker.replication.fetch_sessions import FetchSessions
from broker.replication.replica_fetcher_manager import ReplicaFetcherManager, fetch_limits
from broker.replication.replica_manager import ReplicaManager
from broker.routes import handler_function
from broker.runtime.purgatory_driver import PurgatoryDriver
from broker.shared_server import RoleServer, SharedServer
from controller.configs.log_config import topic_log_config
from controller.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from protocol.api import APIS, ApiKey
from protocol.records.metadata import RemoveTopicRecord

if TYPE_CHECKING:
    from broker.controller_server import ControllerServer
    from broker.coordinator.group.group_coordinator import GroupCoordinator
    from broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
    from broker.dispatch import WithErrors
    from broker.log_dirs.replica_alter_log_dirs import ReplicaAlterLogDirs
    from broker.monitoring.telemetry import Telemetry
    from broker.network.connection import RequestContext
    from broker.replication.add_partitions_to_txn_manager import AddPartitionsToTxnManager
    from controller.image import MetadataImage
    from protocol.schema import Message
    from storage.log_directory import LogDirectory

_ALL_DIRECTORIES = "*"
_TWO_PHASE_COMMIT_VERSION = 6

_log = logging.getLogger("broker")


class BrokerServer(RoleServer):
    """A broker."""

    def __init__(
        self,
        shared: SharedServer,
        controller: ControllerServer | None,
        *,
        start_group: StartGroup | None = None,
        with_errors: WithErrors | None = None,
    ) -> None:
        """Build the parts; `controller` is this node's, None on a node that is only a broker."""
        channel = shared.controller_channel(_no_answer) if controller is None else controller.controller_channel
        super().__init__(shared, "broker", channel, with_errors)
        settings, loop = self.settings, self.loop
        self._shared = shared
        self._start_group = start_group
        self.controller = controller
        self.dynamic_config = shared.dynamic_config
        self.node_clients = shared.node_clients
        self.check_security = shared.check_security
        self.recently_fenced = RecentlyFenced(loop.time)
        self._purgatory_driver = PurgatoryDriver(loop)
        self.purgatory = self._purgatory_driver.purgatory
        window = SampleWindow(
            settings["replication.quota.window.num"], 1000 * settings["replication.quota.window.size.seconds"]
        )
        self.leader_replication_quota = ReplicationQuota(window, lambda: self.dynamic_config[LEADER_RATE])
        self.follower_replication_quota = ReplicationQuota(window, lambda: self.dynamic_config[FOLLOWER_RATE])
        self.replicas = ReplicaManager(
            self.node_id,
            metadata=self.raft,
            logs=self.logs,
            purgatory=self.purgatory,
            fetch_sessions=FetchSessions(
                settings["max.incremental.fetch.session.cache.slots"], self.purgatory, self.random
            ),
            loop=loop,
            now_ms=self.now_ms,
            topic_config=lambda image, topic: topic_log_config(image, settings, topic),
            leader_quota=self.leader_replication_quota,
        )
        self.log_cleaner = LogCleaner(shared.disk, self.logs, self.dynamic_config.__getitem__, self.timers, self.now_ms)
        self.lifecycle = BrokerLifecycleManager(
            self.node_id,
            self.controller_channel.call,
            loop,
            controller_change=self.raft.leader_change,
            applied_offset=lambda: self.raft.applied_offset,
            offline_directories=lambda: [one.directory_id for one in self.logs.directories if one.failure is not None],
            cordoned_directories=lambda: cordoned_ids(self.logs.directories, self.dynamic_config["cordoned.log.dirs"]),
            heartbeat_interval_s=settings["broker.heartbeat.interval.ms"] / 1000,
            session_timeout_s=settings["broker.session.timeout.ms"] / 1000,
        )
        self._eager_heartbeats = EagerHeartbeats(
            self.node_id, loop, until_applied=self.raft.until_applied, send_now=self.lifecycle.send_now
        )
        self.replication = ReplicaFetcherManager(
            loop,
            self.node_id,
            self.replicas,
            cluster_id=self.cluster_id,
            connect_broker=self.node_clients.broker,
            send_to_controller=self.controller_channel.send,
            broker_epoch=lambda: self.broker_epoch,
            limits=fetch_limits(settings),
            lag_max_ms=settings["replica.lag.time.max.ms"],
            quota=self.follower_replication_quota,
        )
        self.assignments = AssignmentsManager(
            self.node_id, lambda: self.broker_epoch, self.logs, self.controller_channel.call, loop
        )
        self.moves: ReplicaAlterLogDirs | None = None
        """The moves of replicas between data directories (KIP-113); None if there is one directory."""
        if len(self.logs.directories) > 1:
            from broker.log_dirs.replica_alter_log_dirs import ReplicaAlterLogDirs

            self.moves = ReplicaAlterLogDirs(self.logs, self.assignments, dynamic_config=self.dynamic_config, loop=loop)
        if settings["transaction.two.phase.commit.enable"]:
            self.dispatcher.serve_up_to(ApiKey.INIT_PRODUCER_ID, _TWO_PHASE_COMMIT_VERSION)
        self.producer_ids = ProducerIdManager(self._allocate_producer_ids)
        self.group_coordinator: GroupCoordinator | None = None
        """The group coordinator; None until the first use of `groups`."""
        self.transaction_coordinator: TransactionCoordinator | None = None
        """The transaction coordinator; None until the first use of `transactions`."""
        self._telemetry: Telemetry | None = None
        self.add_partitions_to_txn_manager: AddPartitionsToTxnManager | None = None
        """The verification of transactions; None until the first use of `transaction_verification`."""

    @property
    def broker_epoch(self) -> int:
        """Return the broker epoch of this run's registration; -1 before it."""
        return self.lifecycle.broker_epoch

    @property
    def groups(self) -> GroupCoordinator:
        """Return the group coordinator, created on first use to keep the start short."""
        if self.group_coordinator is None:
            from broker.coordinator.group.construction import new_group_coordinator

            self.group_coordinator = new_group_coordinator(
                self.replicas,
                self.settings,
                image=lambda: self.image,
                loop=self.timers,
                now_ms=self.now_ms,
                random=self.random,
            )
        return self.group_coordinator

    @property
    def transaction_verification(self) -> AddPartitionsToTxnManager:
        """Return the verification of transactions with their coordinators, created with the first transaction."""
        if self.add_partitions_to_txn_manager is None:
            from broker.replication.add_partitions_to_txn_manager import AddPartitionsToTxnManager

            self.add_partitions_to_txn_manager = AddPartitionsToTxnManager(
                self.node_id,
                image=lambda: self.image,
                connect_broker=partial(self.node_clients.broker, may_be_idle=True),
                call_here=partial(handler_function("add_partitions_to_txn:add_or_verify"), self),
                config=self.dynamic_config.__getitem__,
                loop=self.loop,
                now_ms=self.now_ms,
                request_memory=self._shared.server.request_memory,
            )
        return self.add_partitions_to_txn_manager

    @property
    def transactions(self) -> TransactionCoordinator:
        """Return the transaction coordinator, created on first use to keep the start short."""
        if self.transaction_coordinator is None:
            from broker.coordinator.transaction.construction import new_transaction_coordinator

            self.transaction_coordinator = new_transaction_coordinator(
                self.replicas,
                self.settings,
                node_id=self.node_id,
                image=lambda: self.image,
                loop=self.loop,
                now_ms=self.now_ms,
                random=self.random,
                producer_ids=self.producer_ids,
                connect_broker=partial(self.node_clients.broker, may_be_idle=True),
                write_markers=partial(handler_function("write_txn_markers:write_markers"), self),
            )
        return self.transaction_coordinator

    @property
    def telemetry(self) -> Telemetry:
        """Return the state of clients that push metrics (KIP-714), created with the first of them."""
        if self._telemetry is None:
            from broker.monitoring.telemetry import Telemetry

            self._telemetry = Telemetry(self.random, self.settings["telemetry.max.bytes"])
        return self._telemetry

    async def request_for_client(self, context: RequestContext, request: Message) -> Any:
        """Return the controller's response to a request on behalf of a client, which it authorizes as the client's.

        The request has another body than the client's, or is of another API. KafkaError without a response in time.
        """
        key = ApiKey(cast("int", request.API_KEY))
        if key != context.api_key:
            context = context._replace(api_key=key, api_version=APIS[key].max_version)

        async def here() -> Message:
            if self.controller is None:
                raise not_controller()
            return await self.controller.dispatcher.handle_authorized(context, request)

        timeout_s = self.settings["request.timeout.ms"] / 1000
        return await self.controller_channel.call_for(context, request, here, timeout_s)

    async def start(self) -> None:
        """Register with the controller, apply the metadata's assignments, and start sending heartbeats.

        `CannotStart` if the registration fails.
        """
        settings, raft, dynamic_config = self.settings, self.raft, self.dynamic_config
        self.controller_channel.on_connection_change(self.lifecycle.send_now)
        incarnation = incarnation_id(self.random.randbytes(16), self._start_group)
        registration = broker_registration(settings, self.cluster_id, incarnation, self.endpoints, self.logs.online)
        try:
            epoch = await self.lifecycle.register(
                registration, settings["initial.broker.registration.timeout.ms"] / 1000
            )
        except RegistrationError as error:
            raise CannotStart(str(error)) from error
        await raft.until_applied(epoch)
        dynamic_config.on_change(
            (
                "max.connections",
                "max.connections.per.ip",
                "max.connections.per.ip.overrides",
                "max.connection.creation.rate",
            ),
            self._shared.apply_connection_limits,
        )
        dynamic_config.on_change(("cordoned.log.dirs",), self.lifecycle.send_now)
        dynamic_config.load(raft.image)
        self._shared.apply_connection_limits()
        raft.subscribe(dynamic_config.apply)
        report_missing(raft.image, self.node_id, self.logs)
        self.node_clients.update_addresses(raft.image)
        raft.subscribe(self.node_clients.apply)
        raft.subscribe(self.recently_fenced.apply)
        self.replication.start()
        self.replicas.load(raft.image)
        raft.subscribe(self.replicas.apply)
        raft.subscribe(self.replication.apply)
        raft.subscribe(self._delete_offsets_of_topics)
        self.replicas.on_leadership(CONSUMER_OFFSETS, self._group_leadership_changed)
        self.replicas.on_leadership(TRANSACTION_STATE, self._transaction_leadership_changed)
        raft.subscribe(self._send_markers_again)
        raft.subscribe(self._eager_heartbeats.apply)
        self.lifecycle.begin()
        self.assignments.report_differences(raft.image, self.replicas.partitions)
        raft.subscribe(self.assignments.apply)
        if self.moves is not None:
            self.moves.start(self.replicas)

    async def until_active(self) -> None:
        """Wait until the controller has unfenced this broker, and all brokers of its start group are known."""
        await self.lifecycle.until_active()
        if self._start_group is not None:
            await until_known(self._start_group, self.raft, self.loop)

    # Stop; the steps of other parts of the node come in between (`broker.node.Node.stop`)

    async def leave(self, *, hand_over: bool, timeout_s: float) -> None:
        """Move leaderships to other brokers if `hand_over` and there are any; then leave the cluster."""
        others = any(broker.active for number, broker in self.image.brokers.items() if number != self.node_id)
        if hand_over and others and not self.lifecycle.fenced and not await self.lifecycle.shut_down(timeout_s):
            _log.warning("Controlled shutdown timed out; stopping anyway")
        await self.lifecycle.stop()
        self.assignments.stop()
        self._eager_heartbeats.stop()
        self.replication.stop()

    async def expire_requests(self, timeout_s: float) -> None:
        """Wait `timeout_s` for group commits, then expire the deferred operations: no event will complete them.

        Verifications of transactions fail before: their coordinators may not respond in time.
        """
        if self.add_partitions_to_txn_manager is not None:
            self.add_partitions_to_txn_manager.stop()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.replicas.group_commit.drain(), timeout_s)
        self.purgatory.expire_all()

    async def stop(self) -> None:
        """Stop the purgatory and the group commits, once all requests are answered."""
        self._purgatory_driver.stop()
        await self.replicas.group_commit.stop()

    # Callbacks of the parts

    def _group_leadership_changed(self, index: int, leader_epoch: int | None) -> None:
        self.groups.runtime.leadership_changed(index, leader_epoch)

    def _transaction_leadership_changed(self, index: int, leader_epoch: int | None) -> None:
        self.transactions.runtime.leadership_changed(index, leader_epoch)

    def _send_markers_again(self, _old: MetadataImage, _new: MetadataImage, _records: tuple[Message, ...]) -> None:
        """Send the markers that wait to the current leaders of their partitions."""
        if self.transaction_coordinator is not None:
            self.transaction_coordinator.markers.leaders_changed()

    async def _allocate_producer_ids(self) -> range:
        timeout_s = self.settings["request.timeout.ms"] / 1000
        return await allocate_block(self.node_id, self.broker_epoch, self.controller_channel, timeout_s)

    def _delete_offsets_of_topics(self, old: MetadataImage, _new: MetadataImage, records: tuple[Message, ...]) -> None:
        removed = (old.topic_by_id(record.topic_id) for record in records if isinstance(record, RemoveTopicRecord))
        topics = [(topic.name, topic.topic_id) for topic in removed if topic is not None]
        if topics and self.group_coordinator is not None:
            self.group_coordinator.topics_deleted(topics)


async def _no_answer(_request: Message) -> Message:
    """Raise NOT_CONTROLLER: a node that is only a broker never leads the quorum."""
    raise not_controller()


def cordoned_ids(directories: Iterable[LogDirectory], named: Sequence[str]) -> tuple[bytes, ...]:
    """Return the ids of the directories that take no new partitions (KIP-1066); `named`: their paths, or `*` for all.

    A path outside `log.dirs` has no effect. Replicas in a cordoned directory stay there.
    """
    paths = {path.rstrip("/") for path in named}
    return tuple(sorted(one.directory_id for one in directories if _ALL_DIRECTORIES in named or one.path in paths))
