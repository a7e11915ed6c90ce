"""All replicas on this broker (Kafka: `ReplicaManager`): hosted, led, followed and deleted by the metadata.

The controller's committed metadata alone decides what is hosted here. `load` compares the image with the logs found on
disk at start-up; `apply` follows each later change. A log whose topic was deleted, was re-created under another topic
id, or has its replicas elsewhere is marked stray, not deleted, as in Kafka: its records may still be needed.

Every change that a waiting operation may depend on wakes the purgatory: an append, a moved high watermark, log start or
leader epoch, and a deletion. The rules of one replica live in `partition`, the files in `storage`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from broker.log_dirs.missing import abbreviated
from broker.monitoring.topic_stats import TopicStats
from broker.quotas.replication_quota import FOLLOWER_REPLICAS, LEADER_REPLICAS, is_throttled
from broker.replication.delayed_produce import DelayedDeleteRecords, DelayedProduce
from broker.replication.follower_replica import FollowerReplica
from broker.replication.group_commit import GroupCommit
from broker.replication.partition import ACKS_ALL, Partition
from broker.replication.replica_state import NO_EPOCH
from broker.runtime.deferred import Deferred
from broker.runtime.purgatory import Purgatory
from controller.configs.topic import BROKER_SYNONYM_NAMES
from controller.image import ResourceType
from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import ZERO_UUID
from protocol.record_batch import BatchHeader, EndTxnMarker
from protocol.records.metadata import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from storage.log.config import FSYNC_ALWAYS
from storage.log.producer_state import CLIENT, AppendOrigin
from storage.log.transaction_marker import build_marker

if TYPE_CHECKING:
    import asyncio

    from broker.quotas.replication_quota import ReplicationQuota
    from broker.replication.fetch_sessions import FetchPartition, FetchSessions
    from broker.replication.partition import ReadResult
    from controller.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
    from storage.log.log import LogAppendInfo, LogConfig
    from storage.log_manager import LogManager

_log = logging.getLogger("broker.replicas")


OnLeadership = Callable[[int, int | None], None]


class Replicating(Protocol):
    """Replica fetching and ISR maintenance, as `ReplicaManager` uses `ReplicaFetcherManager`."""

    def partition_changed(self, partition: Partition) -> None:
        """Apply the leader and follower role that `partition` has now."""

    def partition_removed(self, partition: Partition) -> None:
        """Stop following `partition`: it is no longer hosted here."""

    def log_start_moved(self, partition: Partition) -> None:
        """Handle a log start that moved forward."""

    def follower_fetched(self, partition: Partition, broker: int) -> None:
        """Handle a fetch by `broker`, which is outside the ISR, from a partition led here."""


class MetadataCache(Protocol):
    """The holder of the metadata image, which is set before its publication (Kafka: `MetadataCache`)."""

    @property
    def image(self) -> MetadataImage:
        """Return the metadata as it is committed and applied."""


class ReplicaManager:
    """All replicas of this broker (Kafka: `ReplicaManager`)."""

    def __init__(
        self,
        node_id: int,
        *,
        metadata: MetadataCache,
        logs: LogManager,
        purgatory: Purgatory,
        fetch_sessions: FetchSessions,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        topic_config: Callable[[MetadataImage, str], LogConfig],
        leader_quota: ReplicationQuota | None = None,
    ) -> None:
        """Host nothing until `load`. `topic_config(image, topic)` returns the configuration of a topic's logs.

        `leader_quota` limits what followers fetch from throttled replicas.
        """
        self._node_id = node_id
        self._metadata = metadata
        self._logs = logs
        self._purgatory = purgatory
        self._loop = loop
        self._now_ms = now_ms
        self._elapsed_ms: Callable[[], int] = lambda: int(loop.time() * 1000)
        self._topic_config = topic_config
        self._leader_quota = leader_quota
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._by_topic: dict[bytes, dict[int, Partition]] = {}
        self._leadership: dict[str, OnLeadership] = {}
        self.topic_stats = TopicStats()
        # Offline replicas, each with the reason.
        self._offline: dict[tuple[bytes, int], str] = {}
        # Offline replicas not logged yet, by reason.
        self._unreported: dict[str, list[str]] = {}
        self.fetch_sessions = fetch_sessions
        self.replication: Replicating | None = None
        """Set before `load` in a cluster; None on a single broker, which has no other replicas."""
        self.group_commit = GroupCommit(loop, now_ms, self._synced)

    # Requests of clients and coordinators.

    @property
    def partitions(self) -> Collection[Partition]:
        """Return every replica that is served here."""
        return self._partitions.values()

    @property
    def offline_count(self) -> int:
        """Return the number of offline replicas: those not served, and those whose directory failed later."""
        failed = sum(self._logs.directory_of(one.log).failure is not None for one in self._partitions.values())
        return len(self._offline) + failed

    @property
    def brokers(self) -> Mapping[int, BrokerImage]:
        """Return the registered brokers."""
        return self._metadata.image.brokers

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id."""
        topic = self._metadata.image.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def find(self, topic_id: bytes, index: int) -> Partition | None:
        """Return the replica of partition `index` of the topic with this id, or None."""
        hosted = self._by_topic.get(topic_id)
        return None if hosted is None else hosted.get(index)

    def find_named(self, topic: str, index: int) -> Partition | None:
        """Return the replica of partition `index` of `topic`, or None."""
        return self._partitions.get((topic, index))

    def partition(self, topic: str, index: int) -> Partition:
        """Return the replica.

        Raise KafkaError: UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR if it is offline, NOT_LEADER_OR_FOLLOWER if it
        is not hosted here.
        """
        found = self._partitions.get((topic, index))
        if found is not None:
            return found
        known = self._metadata.image.topic(topic)
        state = known.partitions.get(index) if known is not None else None
        if known is None or state is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {topic}-{index}")
        if (known.topic_id, index) in self._offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} is offline")
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {state.leader} leads {topic}-{index}")

    def append(
        self,
        partition: Partition,
        records: memoryview,
        acks: int,
        header: BatchHeader | None = None,
        origin: AppendOrigin = CLIENT,
    ) -> LogAppendInfo:
        """Append a checked batch to a partition led here, and wake its readers (Kafka: `ReplicaManager.appendRecords`).

        `header` is the batch's, if already parsed. KafkaError if nothing was appended.
        """
        topic_metrics = partition.topic_metrics
        topic_metrics.produces += 1
        info, moved = partition.append_as_leader(records, acks, self._now_ms(), self._elapsed_ms, header, origin)
        size_bytes = len(records)
        topic_metrics.bytes_in += size_bytes
        topic_metrics.messages_in += info.last_offset - info.base_offset + 1
        if partition.followers:
            self._purgatory.wake(partition.log, size_bytes)
        if moved:
            self._purgatory.wake(partition, size_bytes)
        if partition.log.config.barnabas_fsync == FSYNC_ALWAYS:
            self.group_commit.schedule(partition)
        return info

    def append_marker(
        self,
        partition: Partition,
        producer_id: int,
        producer_epoch: int,
        marker: EndTxnMarker,
        transaction_version: int = 0,
    ) -> LogAppendInfo:
        """Append the marker that ends a producer's transaction to a partition led here, and wake its readers.

        Raise KafkaError, with nothing appended: NOT_ENOUGH_REPLICAS if the ISR is too small, INVALID_PRODUCER_EPOCH and
        TRANSACTION_COORDINATOR_FENCED as `ProducerStateManager.check_marker`, and others as `append`.
        """
        records = build_marker(producer_id, producer_epoch, marker, self._now_ms())
        origin = AppendOrigin(from_client=False, marker=marker, transaction_version=transaction_version)
        info = self.append(partition, memoryview(records), ACKS_ALL, origin=origin)
        # A read_committed reader may read more than the marker's bytes now: all records of the transaction.
        self._purgatory.wake(partition)
        return info

    def _synced(self, partition: Partition) -> None:
        """Advance the high watermark after a sync, successful or not, and wake the waiting operations."""
        if partition.is_leader:
            partition.advance_high_watermark()
        self.wake_readers(partition)

    def wake_readers(self, partition: Partition) -> None:
        """Wake waiting clients: the high watermark or a replica's log start may have moved.

        A parked follower fetch records the change but is not completed by it.
        """
        self._purgatory.wake(partition)
        self._purgatory.wake(partition.log, 0)

    def _wake_all(self, partition: Partition) -> None:
        """Wake every operation that waits for this partition, to check again."""
        self._purgatory.wake(partition)
        self._purgatory.wake(partition.log)

    def await_commit(self, writes: list[tuple[Partition, int]], timeout_ms: int) -> Deferred[list[ErrorCode]]:
        """Return the error code of each (partition, end offset), once all are committed or `timeout_ms` has passed."""
        return self._wait(DelayedProduce, writes, timeout_ms)

    def await_deletion(self, deletions: list[tuple[Partition, int]], timeout_ms: int) -> Deferred[list[ErrorCode]]:
        """Return the error code of each deletion below (partition, offset), as `await_commit`."""
        return self._wait(DelayedDeleteRecords, deletions, timeout_ms)

    def _wait(
        self, kind: type[DelayedProduce], offsets: list[tuple[Partition, int]], timeout_ms: int
    ) -> Deferred[list[ErrorCode]]:
        outcomes: Deferred[list[ErrorCode]] = Deferred(self._loop)
        kind(self._purgatory, offsets, outcomes, self._loop.time() + timeout_ms / 1000)
        return outcomes

    def fetch_as_follower(
        self,
        partition: Partition,
        broker: int,
        broker_epoch: int,
        wanted: FetchPartition,
        max_bytes: int,
        *,
        min_one: bool,
        update: bool,
    ) -> ReadResult:
        """Return batches for a follower, check whether it may join the ISR, and wake readers of what it commits.

        As `Partition.fetch_as_follower`; no batches while the replica's replication is above its quota.
        """
        if partition.leader_throttled and broker not in partition.isr and self._is_above_quota:
            max_bytes, min_one = 0, False
        registered = self.brokers.get(broker)
        result, moved, may_join = partition.fetch_as_follower(
            broker,
            wanted.fetch_offset,
            wanted.log_start_offset,
            max_bytes,
            self._elapsed_ms(),
            broker_epoch=broker_epoch,
            registered_epoch=NO_EPOCH if registered is None else registered.epoch,
            current_leader_epoch=wanted.current_leader_epoch,
            last_fetched_epoch=wanted.last_fetched_epoch,
            min_one=min_one,
            update=update,
        )
        if may_join and self.replication is not None:
            self.replication.follower_fetched(partition, broker)
        if moved:
            self.wake_readers(partition)
        return result

    @property
    def _is_above_quota(self) -> bool:
        quota = self._leader_quota
        return quota is not None and quota.throttle_ms(self._elapsed_ms()) > 0

    def sent_to_follower(self, partition: Partition, size_bytes: int) -> None:
        """Count what a response to a follower has."""
        partition.topic_metrics.replication_bytes_out += size_bytes
        if partition.leader_throttled and self._leader_quota is not None:
            self._leader_quota.record(size_bytes, self._elapsed_ms())

    def follower_replica(self, partition: Partition) -> FollowerReplica:
        """Return `partition` as a follower replica, to append its leader's records to."""
        return FollowerReplica(partition, self._logs, self._now_ms, self._purgatory.wake)

    def delete_records(self, partition: Partition, offset: int) -> int:
        """Move the log start to `offset` (-1: the high watermark); return the resolved offset.

        Raise KafkaError if that is not allowed. The deletion is durable, and may be answered, only after
        `save_log_starts`.
        """
        target = partition.deletion_target(offset)
        self._logs.delete_records(partition.log, target)
        self._log_start_moved(partition)
        return target

    def save_log_starts(self) -> None:
        """Write the log start offsets to disk, so that deletions survive a crash; KafkaError if that fails."""
        self._logs.save_log_starts()

    def check_log_starts(self) -> None:
        """Wake the operations that wait for logs whose start retention has moved; called after each retention pass."""
        for partition in self._partitions.values():
            if partition.log.log_start_offset != partition.log_start_seen:
                self._log_start_moved(partition)

    def _log_start_moved(self, partition: Partition) -> None:
        partition.log_start_seen = partition.log.log_start_offset
        self._wake_all(partition)
        if self.replication is not None:
            self.replication.log_start_moved(partition)

    # Metadata changes.

    def on_leadership(self, topic: str, callback: OnLeadership) -> None:
        """Call `callback(index, leader epoch)` for each partition of `topic` that this broker leads now or later.

        The epoch is None when this broker no longer leads the partition.
        """
        self._leadership[topic] = callback
        for (name, index), partition in self._partitions.items():
            if name == topic and partition.is_leader:
                callback(index, partition.leader_epoch)

    def load(self, image: MetadataImage) -> None:
        """Serve what `image` places here; mark the other logs stray.

        A log without a topic id lost it in a power failure, and may belong to a deleted topic of the same name. It gets
        the topic's id only if no other replica has the partition's records, and only if it was flushed before or is
        empty: Kafka writes the id durably before the first record.
        """
        for log in self._logs:
            topic = image.topic(log.topic)
            state = image.partition(log.topic, log.partition)
            try:
                may_be_last = state is not None and {*state.isr, *state.eligible_leader_replicas} <= {self._node_id}
                if topic is not None and may_be_last and log.topic_id == ZERO_UUID and not log.maybe_former:
                    log.assign_topic_id(topic.topic_id)
                if (
                    topic is None
                    or topic.topic_id != log.topic_id
                    or state is None
                    or self._node_id not in state.replicas
                ):
                    place = self._logs.mark_stray(log.topic, log.partition)
                    _log.warning("Log %s is stray: the metadata places no such replica here. Renamed to %s", log, place)
            except KafkaError as error:
                _log.error("Log %s: %s", log, error)
        for topic in image.topics():
            for state in topic.partitions.values():
                self._apply_partition(image, topic, state)
        self._log_offline()

    def apply(self, _old: MetadataImage, new: MetadataImage, records: Iterable[object]) -> Iterator[None]:
        """Apply the changes `records` that led to `new`: one replica, or one topic's configuration, a step."""
        touched: dict[tuple[bytes, int], None] = {}
        reconfigured: dict[bytes, None] = {}
        for record in records:
            if isinstance(record, (PartitionRecord, PartitionChangeRecord)):
                touched[record.topic_id, record.partition_id] = None
            elif isinstance(record, RemoveTopicRecord):
                yield from self._remove_topic(record.topic_id)
            elif isinstance(record, ConfigRecord):
                reconfigured.update(dict.fromkeys(self._affected_topics(new, record)))
        for topic_id in reconfigured:
            self._reconfigure(new, topic_id)
            yield
        for topic_id, index in touched:
            topic = new.topic_by_id(topic_id)
            state = topic.partitions.get(index) if topic is not None else None
            if topic is not None and state is not None:
                self._apply_partition(new, topic, state)
                yield
        self._log_offline()

    def retry(self) -> None:
        """Try again to serve the offline replicas that lacked disk space or file descriptors."""
        image = self._metadata.image
        for topic_id, index in list(self._offline):
            topic = image.topic_by_id(topic_id)
            state = topic.partitions.get(index) if topic is not None else None
            if topic is not None and state is not None and self._node_id in state.replicas:
                self._apply_partition(image, topic, state)
            else:
                del self._offline[topic_id, index]
        self._log_offline()

    def _log_offline(self) -> None:
        """Log the newly offline replicas, one line a reason: a directory may hold thousands."""
        found, self._unreported = self._unreported, {}
        for reason, partitions in found.items():
            _log.error("%s not served: %s", abbreviated(partitions), reason)

    def _apply_partition(self, image: MetadataImage, topic: TopicImage, state: PartitionImage) -> None:
        """Apply `state` to the replica: leader, follower, or not hosted."""
        key = (topic.topic_id, state.partition)
        partition = self._partitions.get((topic.name, state.partition))
        if self._node_id not in state.replicas:
            if partition is not None:
                self._remove(partition)
            return
        try:
            if partition is None:
                partition = self._create_partition(image, topic, state)
            led, epoch = partition.is_leader, partition.leader_epoch
            if state.leader == self._node_id:
                partition.lead(state, self._elapsed_ms())
            else:
                partition.follow(state)
        except KafkaError as error:
            if self._offline.get(key) != str(error):
                self._offline[key] = str(error)
                self._unreported.setdefault(str(error), []).append(f"{topic.name}-{state.partition}")
            return
        self._offline.pop(key, None)
        self._wake_all(partition)
        if self.replication is not None:
            self.replication.partition_changed(partition)
        self._sync_if_wanted(partition)
        if partition.is_leader and (not led or epoch != partition.leader_epoch):
            self._notify_leadership(partition, partition.leader_epoch)
        elif led and not partition.is_leader:
            self._notify_leadership(partition, None)

    def _create_partition(self, image: MetadataImage, topic: TopicImage, state: PartitionImage) -> Partition:
        """Return a new replica over its existing log, or over a new log in its assigned directory."""
        index = state.partition
        siblings = self._by_topic.get(topic.topic_id, {})
        some = next(iter(siblings.values()), None)
        config = some.log.config if some is not None else self._topic_config(image, topic.name)
        log = self._logs.get(topic.name, index)
        directory = state.directories[state.replicas.index(self._node_id)]
        if log is None:
            log = self._logs.create(topic.name, topic.topic_id, index, config, directory)
        if log.topic_id != topic.topic_id:  # of a deleted topic whose files could not be deleted
            self._logs.delete(topic.name, index)
            log = self._logs.create(topic.name, topic.topic_id, index, config, directory)
        log.config = config
        partition = Partition(self._node_id, topic.name, topic.topic_id, index, log, self.topic_stats.of(topic.name))
        self._apply_throttles(image, partition)
        self._partitions[topic.name, index] = partition
        self._by_topic.setdefault(topic.topic_id, siblings)[index] = partition
        return partition

    def _apply_throttles(self, image: MetadataImage, partition: Partition) -> None:
        """Apply the topic's lists of throttled replicas to a replica."""
        configs = image.configs(ResourceType.TOPIC, partition.topic)
        index, broker = partition.index, self._node_id
        partition.leader_throttled = is_throttled(configs.get(LEADER_REPLICAS), index, broker)
        partition.follower_throttled = is_throttled(configs.get(FOLLOWER_REPLICAS), index, broker)

    def _remove_topic(self, topic_id: bytes) -> Iterator[None]:
        for partition in tuple(self._by_topic.get(topic_id, {}).values()):
            self._remove(partition)
            yield

    def _remove(self, partition: Partition) -> None:
        """Stop serving a replica, and delete its log."""
        del self._partitions[partition.topic, partition.index]
        hosted = self._by_topic[partition.topic_id]
        del hosted[partition.index]
        if not hosted:
            del self._by_topic[partition.topic_id]
            self.topic_stats.forget(partition.topic)
        partition.unavailable = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._wake_all(partition)
        if self.replication is not None:
            self.replication.partition_removed(partition)
        if partition.is_leader:
            self._notify_leadership(partition, None)
        try:
            self._logs.delete(partition.topic, partition.index)
        except KafkaError as error:
            _log.error("Deleting the log of %s failed: %s", partition, error)

    def _sync_if_wanted(self, partition: Partition) -> None:
        if partition.is_leader and partition.needs_sync:
            self.group_commit.schedule(partition)

    def _notify_leadership(self, partition: Partition, leader_epoch: int | None) -> None:
        callback = self._leadership.get(partition.topic)
        if callback is not None:
            callback(partition.index, leader_epoch)

    def _affected_topics(self, image: MetadataImage, record: ConfigRecord) -> Iterable[bytes]:
        """Return the ids of the topics whose log configuration `record` may change."""
        if record.resource_type == ResourceType.TOPIC:
            topic = image.topic(record.resource_name)
            return () if topic is None else (topic.topic_id,)
        ours = record.resource_type == ResourceType.BROKER and record.resource_name in ("", str(self._node_id))
        return self._by_topic if ours and record.name in BROKER_SYNONYM_NAMES else ()

    def _reconfigure(self, image: MetadataImage, topic_id: bytes) -> None:
        """Apply the current configuration to a topic's logs."""
        config: LogConfig | None = None
        for partition in self._by_topic.get(topic_id, {}).values():
            config = config or self._topic_config(image, partition.topic)
            partition.log.config = config
            self._apply_throttles(image, partition)
            if partition.is_leader and partition.advance_high_watermark():
                self.wake_readers(partition)
            self._sync_if_wanted(partition)
