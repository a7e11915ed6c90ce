"""One replica of a partition (Kafka: `Partition`): its role, the ISR, the high watermark, reads and appends.

Theory of operation. The controller decides the leader, its leader epoch and the ISR; `lead` and `follow` apply them
from a `PartitionImage`. The leader appends, followers fetch, and each fetch carries the follower's log end offset. The
leader proposes ISR changes to the controller. Until a proposal is committed, the *maximal* ISR counts: the union of the
committed and the proposed ISR. The *high watermark* is the smallest log end offset of the maximal ISR and of the
replicas about to join it. Records below it are committed; consumers read no further. It moves only

  - on offsets that followers fetched from in this leader epoch: a new epoch resets all follower state;
  - while the ISR has at least the effective `min.insync.replicas`, which never exceeds the number of replicas;
  - with `barnabas.fsync=always`, up to the leader's own recovery point (`group_commit`);
  - forwards.

Until the high watermark passes the start offset of its epoch, a leader does not know what its predecessor committed,
and answers OFFSET_NOT_AVAILABLE to requests for the latest offset (KIP-207).

A request may carry the leader epoch that the client knows (KIP-320): an older one gets FENCED_LEADER_EPOCH, a newer one
UNKNOWN_LEADER_EPOCH.

Pure but for its `Log`. `replica_manager` owns the partitions and wakes waiting operations; `isr` holds the rules for
joining and leaving the ISR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from broker.replication.replica_state import NEVER_MS, NO_EPOCH, NO_OFFSET, ReplicaState
from protocol.errors import ErrorCode, KafkaError
from storage.log.config import FSYNC_ALWAYS
from storage.log.producer_state import CLIENT, AppendOrigin

if TYPE_CHECKING:
    from broker.monitoring.topic_stats import BrokerTopicMetrics
    from controller.image import PartitionImage
    from protocol.record_batch import BatchHeader
    from storage.log.log import FileSlice, Log, LogAppendInfo
    from storage.log.transaction_index import AbortedTxn
    from storage.steps import Steps

NO_TIMESTAMP = -1

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

ACKS_ALL = -1
DELETE_TO_HIGH_WATERMARK = -1


class Isolation(IntEnum):
    """How far a reader may read. The first two have the values of the wire protocol."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
    LOG_END = 2


class ReadResult(NamedTuple):
    """The result of a read. `caught_up`: only the isolation level keeps the reader from more records."""

    slices: list[FileSlice]
    size_bytes: int
    caught_up: bool
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging_epoch: tuple[int, int] | None = None
    aborted: Sequence[AbortedTxn] = ()


class FollowerFetch(NamedTuple):
    """A follower's fetch, and what it changed."""

    result: ReadResult
    offsets_moved: bool
    """Whether the high watermark or the follower's log start moved."""
    may_join: bool
    """Whether the follower's state is new, and it is outside the ISR."""


# Equals `ReadResult(...)` without a Python call for each read.
_read_result = partial(tuple.__new__, ReadResult)


class OffsetFound(NamedTuple):
    """The position of a record: a ListOffsets result."""

    timestamp: int = NO_TIMESTAMP
    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH


class Partition:
    """A replica on this broker (Kafka: `Partition`)."""

    __slots__ = (
        "_bounding",
        "at_end",
        "epoch_start_offset",
        "follower_throttled",
        "followers",
        "index",
        "is_leader",
        "isr",
        "leader",
        "leader_epoch",
        "leader_throttled",
        "log",
        "log_start_seen",
        "node_id",
        "partition_epoch",
        "proposed_isr",
        "replicas",
        "topic",
        "topic_id",
        "topic_metrics",
        "unavailable",
    )

    def __init__(
        self, node_id: int, topic: str, topic_id: bytes, index: int, log: Log, topic_metrics: BrokerTopicMetrics
    ) -> None:
        """Begin neither as leader nor as follower; `topic_metrics` is shared by the topic's partitions."""
        self.node_id = node_id
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.topic_metrics = topic_metrics
        self.unavailable = ErrorCode.NONE
        """The error code for every request once the replica is deleted."""
        self.is_leader = False
        self.leader = -1
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: frozenset[int] = frozenset()
        self.proposed_isr: frozenset[int] | None = None
        """The ISR sent to the controller, which may have committed it already."""
        self.followers: dict[int, ReplicaState] = {}
        self.at_end: list[ReplicaState] = []
        """The followers that have fetched up to the log end since the last append."""
        self._bounding: tuple[ReplicaState, ...] = ()  # followers that bound the high watermark
        self.epoch_start_offset = 0
        self.log_start_seen = log.log_start_offset
        self.leader_throttled = False
        """Whether what is sent to followers as leader counts for `leader.replication.throttled.rate`."""
        self.follower_throttled = False
        """Whether what is fetched as follower counts for `follower.replication.throttled.rate`."""

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def high_watermark(self) -> int:
        """Return the offset below which every record is committed."""
        return self.log.high_watermark

    @property
    def min_isr(self) -> int:
        """Return the effective `min.insync.replicas`: at most the number of replicas."""
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Return the union of the committed ISR and the proposed one (Kafka: `PartitionState.maximalIsr`)."""
        return self.isr if self.proposed_isr is None else self.isr | self.proposed_isr

    # Leadership.

    def lead(self, image: PartitionImage, elapsed_ms: int) -> None:
        """Become or stay the leader per `image`, at `elapsed_ms` of the loop (Kafka: `Partition.makeLeader`)."""
        if image.leader_epoch > self.leader_epoch:
            self.log.assign_leader_epoch(image.leader_epoch)
            self.epoch_start_offset = self.log.log_end_offset
            self.followers = {}
            self.at_end = []
        self._apply(image)
        self.is_leader = True
        self.followers = {
            broker: self.followers.get(broker) or ReplicaState(broker, elapsed_ms if broker in self.isr else NEVER_MS)
            for broker in image.replicas
            if broker != self.node_id
        }
        self._update_bounding()

    def follow(self, image: PartitionImage) -> None:
        """Become a follower: another broker leads, or none does (Kafka: `Partition.makeFollower`)."""
        self._apply(image)
        self.is_leader = False
        self.followers = {}
        self.at_end = []
        self._bounding = ()

    def _apply(self, image: PartitionImage) -> None:
        """Apply the committed state, but not an ISR older than the one from an AlterPartition response."""
        if image.leader_epoch > self.leader_epoch or image.partition_epoch > self.partition_epoch:
            self.partition_epoch = image.partition_epoch
            self.isr = frozenset(image.isr)
            self.proposed_isr = None
        self.leader = image.leader
        self.leader_epoch = image.leader_epoch
        self.replicas = tuple(image.replicas)

    # The ISR.

    def propose(self, isr: frozenset[int] | None) -> None:
        """Set the proposed ISR while the controller decides; None once it has refused."""
        self.proposed_isr = isr
        self._update_bounding()

    def update_isr(self, isr: Iterable[int], partition_epoch: int) -> bool:
        """Apply an ISR that the controller committed; return False if `partition_epoch` is not newer."""
        if partition_epoch <= self.partition_epoch:
            return False
        self.isr, self.partition_epoch = frozenset(isr), partition_epoch
        self.propose(None)
        return True

    def set_awaited(self, broker: int, awaited: bool) -> None:
        """Set whether a replica outside the ISR bounds the high watermark (`isr`)."""
        self.followers[broker].awaited = awaited
        self._update_bounding()

    def _update_bounding(self) -> None:
        """Recompute which followers bound the high watermark, and advance it."""
        counts = self.maximal_isr
        for follower in self.followers.values():
            follower.awaited = follower.awaited and follower.broker not in self.isr
        self._bounding = tuple(one for one in self.followers.values() if one.awaited or one.broker in counts)
        if self.is_leader:
            self.advance_high_watermark()

    def check(self, current_leader_epoch: int = NO_EPOCH, leader_only: bool = True) -> None:
        """Raise KafkaError if a request with that leader epoch cannot be served here."""
        if self.unavailable:
            raise KafkaError(self.unavailable, f"{self} has been deleted from this broker")
        if current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
            older = current_leader_epoch < self.leader_epoch
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self} is in leader epoch {self.leader_epoch}; the request has {current_leader_epoch}",
            )
        if leader_only and not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {self.leader} leads {self}")

    # Writing.

    def append_as_leader(
        self,
        records: memoryview,
        acks: int,
        now_ms: int,
        elapsed_ms: Callable[[], int],
        header: BatchHeader | None = None,
        origin: AppendOrigin = CLIENT,
    ) -> tuple[LogAppendInfo, bool]:
        """Append one checked batch; return what was appended, and whether the high watermark moved.

        `now_ms` is the wall clock; `elapsed_ms` returns the loop's time, and is called only if a follower was at the
        log end. Raise NOT_ENOUGH_REPLICAS, with nothing written, if `acks` is -1 and the ISR is too small; also
        KafkaErrors of `check` and the log. Kafka: `Partition.appendRecordsToLeader`. A plain tuple: a NamedTuple would
        cost 2 % of a small Produce.
        """
        if self.unavailable or not self.is_leader:
            self.check()
        if acks == ACKS_ALL and len(self.isr) < self.min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.isr)} in-sync replicas, {self.min_isr} needed: {self} is under min.insync.replicas",
            )
        log = self.log
        info = log.append_as_leader(records, self.leader_epoch, now_ms, header, origin)
        if self.at_end:  # these followers were caught up until now
            caught_up_ms = elapsed_ms()
            for follower in self.at_end:
                follower.caught_up_ms = max(follower.caught_up_ms, caught_up_ms)
            self.at_end = []
        return info, self.advance_high_watermark()

    def advance_high_watermark(self) -> bool:
        """Move the high watermark to the smallest end offset of the replicas that count; return whether it moved."""
        log, in_sync = self.log, len(self.isr)
        if in_sync < len(self.replicas) and in_sync < log.config.min_insync_replicas:
            return False
        committed = log.recovery_point if log.config.barnabas_fsync == FSYNC_ALWAYS else log.log_end_offset
        for follower in self._bounding:
            if follower.log_end_offset < committed:
                committed = follower.log_end_offset
        if committed <= log.high_watermark:
            return False
        log.update_high_watermark(committed)
        return True

    @property
    def needs_sync(self) -> bool:
        """Whether `barnabas.fsync=always` is set and the log has unsynced records."""
        return self.log.config.barnabas_fsync == FSYNC_ALWAYS and self.log.recovery_point < self.log.log_end_offset

    def fetch_as_follower(
        self,
        broker: int,
        offset: int,
        log_start_offset: int,
        max_bytes: int,
        elapsed_ms: int,
        *,
        broker_epoch: int = NO_EPOCH,
        registered_epoch: int = NO_EPOCH,
        current_leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
        min_one: bool = True,
        update: bool = True,
    ) -> FollowerFetch:
        """Return batches up to the log end for `broker`, and update its state (Kafka: `Partition.fetchRecords`).

        `broker_epoch` is the request's, `registered_epoch` that of the metadata. `update` is False if the request has
        waited: its fetch offset is valid only in the leader epoch in which it arrived. A diverging log does not count.
        KafkaError: those of `check_follower` and `read`.
        """
        self.check_follower(broker, current_leader_epoch)
        if broker_epoch != NO_EPOCH and registered_epoch > broker_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {broker} is registered with broker epoch {registered_epoch}, but fetched with {broker_epoch}",
            )
        result = self.read(
            offset,
            max_bytes,
            Isolation.LOG_END,
            current_leader_epoch=current_leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
            min_one=min_one,
        )
        if not update or result.diverging_epoch is not None:
            return FollowerFetch(result, False, False)
        moved = log_start_offset > self.followers[broker].log_start_offset
        if self.update_follower_fetch_state(broker, offset, log_start_offset, elapsed_ms, broker_epoch):
            log, moved = self.log, True
            result = result._replace(high_watermark=log.high_watermark, last_stable_offset=log.last_stable_offset)
        return FollowerFetch(result, moved, broker not in self.isr)

    def check_follower(self, broker: int, current_leader_epoch: int) -> None:
        """Raise KafkaError if `broker` has no replica of this partition, as far as this leader knows.

        With the leader's epoch in the request the error is UNKNOWN_LEADER_EPOCH: the follower knows a newer assignment,
        and retries.
        """
        self.check(current_leader_epoch)
        if broker not in self.followers:
            named = current_leader_epoch != NO_EPOCH
            raise KafkaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH if named else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {broker} has no replica of {self}",
            )

    def update_follower_fetch_state(
        self, broker: int, log_end_offset: int, log_start_offset: int, elapsed_ms: int, broker_epoch: int = NO_EPOCH
    ) -> bool:
        """Apply a fetch in this epoch to the follower's state; return whether the high watermark moved."""
        follower = self.followers[broker]
        leader_end = self.log.log_end_offset
        follower.fetched(log_end_offset, log_start_offset, leader_end, elapsed_ms, broker_epoch)
        if log_end_offset < leader_end:
            self.at_end = [one for one in self.at_end if one is not follower]  # it restarted with a shorter log
        elif follower not in self.at_end:
            self.at_end.append(follower)
        return self.advance_high_watermark()

    def committed(self, end_offset: int) -> ErrorCode | None:
        """Return the result of a write that ends at `end_offset`; None while it is not committed."""
        if self.unavailable:
            return self.unavailable
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < end_offset:
            return ErrorCode.KAFKA_STORAGE_ERROR if self.log.offline else None
        enough = len(self.isr) >= self.min_isr
        return ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    # Reading.

    def read(
        self,
        offset: int,
        max_bytes: int,
        isolation: Isolation,
        *,
        current_leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
        leader_only: bool = True,
        min_one: bool = True,
    ) -> ReadResult:
        """Return whole batches from `offset` on, as far as `isolation` allows (Kafka: `Partition.fetchRecords`).

        With READ_COMMITTED the result lists the aborted transactions in the range. With `last_fetched_epoch`, if
        the reader's log diverges, the result has the diverging epoch instead of records (KIP-595). KafkaError:
        OFFSET_OUT_OF_RANGE, and those of `check`.
        """
        self.check(current_leader_epoch, leader_only)
        self.topic_metrics.fetches += 1
        log = self.log
        high_watermark, stable, start = log.high_watermark, log.last_stable_offset, log.log_start_offset
        if last_fetched_epoch != NO_EPOCH:
            diverging = self._diverging(offset, last_fetched_epoch)
            if diverging is not None:
                return ReadResult([], 0, False, high_watermark, stable, start, diverging)
        if isolation is Isolation.READ_UNCOMMITTED:
            limit = high_watermark
        else:
            limit = stable if isolation is Isolation.READ_COMMITTED else log.log_end_offset
        if not max_bytes and not min_one and start <= offset < limit:
            return ReadResult([], 0, False, high_watermark, stable, start)
        slices, size_bytes = log.read(offset, max_bytes, limit_offset=limit, min_one=min_one)
        aborted: Sequence[AbortedTxn] = ()
        if isolation is Isolation.READ_COMMITTED and slices:
            aborted = log.aborted_transactions(offset, slices[0])
        return _read_result((slices, size_bytes, offset >= limit, high_watermark, stable, start, None, aborted))

    def _diverging(self, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """Return (epoch, end offset) of the last common epoch if the reader's log diverges, else None."""
        epoch, end_offset = self.log.end_offset_for_epoch(last_fetched_epoch)
        if epoch == NO_EPOCH or end_offset == NO_OFFSET or offset < self.log.log_start_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self} starts at {self.log.log_start_offset}; fetch offset {offset}, epoch {last_fetched_epoch}",
            )
        return (epoch, end_offset) if epoch < last_fetched_epoch or end_offset < offset else None

    def end_offset_for_epoch(self, epoch: int, current_leader_epoch: int) -> tuple[int, int]:
        """Return the largest known epoch not above `epoch`, and its end offset; (-1, -1) if there is none."""
        self.check(current_leader_epoch)
        return self.log.end_offset_for_epoch(epoch)

    def find_offset(
        self,
        timestamp: int,
        isolation: Isolation,
        current_leader_epoch: int = NO_EPOCH,
        leader_only: bool = True,
    ) -> Steps[OffsetFound]:
        """Return the first record not before `timestamp` (ms), or the offset for a negative timestamp (ListOffsets).

        `OffsetFound()` if there is none. KafkaError: OFFSET_NOT_AVAILABLE, and those of `check` and the log.
        """
        self.check(current_leader_epoch, leader_only)
        log = self.log
        place = None
        if timestamp == MAX_TIMESTAMP or timestamp >= 0:
            place = yield from log.max_timestamp_offset() if timestamp < 0 else log.offset_for_timestamp(timestamp)
            self.check(current_leader_epoch, leader_only)  # again: the search may have waited for a thread
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return OffsetFound(NO_TIMESTAMP, log.log_start_offset, self._epoch_at(log.log_start_offset))
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return OffsetFound()
        client = isolation is not Isolation.LOG_END
        lagging = client and self.is_leader and self.epoch_start_offset > log.high_watermark
        limit = log.log_end_offset
        if client:
            limit = log.last_stable_offset if isolation is Isolation.READ_COMMITTED else log.high_watermark
        if timestamp == LATEST:
            found = OffsetFound(NO_TIMESTAMP, limit, self.leader_epoch)
            beyond = True
        else:
            beyond = place is None or place.offset >= limit
            found = OffsetFound(*place) if place is not None and not beyond else OffsetFound()
        if lagging and beyond:
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"the high watermark of {self} has not passed the start of leader epoch {self.leader_epoch}",
            )
        return found

    def _epoch_at(self, offset: int) -> int:
        epoch = self.log.leader_epochs.epoch_for_offset(offset)
        return NO_EPOCH if epoch is None else epoch

    # Deleting.

    @property
    def low_watermark(self) -> int:
        """Return the smallest log start offset of all replicas but those on fenced brokers (`lowWatermarkIfLeader`)."""
        return min((self.log.log_start_offset, *_starts(self.followers.values())))

    def deleted(self, offset: int) -> ErrorCode | None:
        """Return the result of a deletion below `offset`; None while a replica has not deleted these records."""
        if self.unavailable or not self.is_leader:
            return self.unavailable or ErrorCode.NOT_LEADER_OR_FOLLOWER
        return None if self.low_watermark < offset else ErrorCode.NONE

    def deletion_target(self, offset: int) -> int:
        """Return the offset to which DeleteRecords with `offset` moves the log start (-1: the high watermark).

        KafkaError: POLICY_VIOLATION if the cleanup policy is `compact` alone, OFFSET_OUT_OF_RANGE beyond the high
        watermark, and those of `check`.
        """
        self.check()
        if self.log.config.cleanup_policy == {"compact"}:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"the cleanup.policy of {self} is compact")
        high_watermark = self.log.high_watermark
        target = high_watermark if offset == DELETE_TO_HIGH_WATERMARK else offset
        if not 0 <= target <= high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {target} of {self} is not in the range 0 to the high watermark {high_watermark}",
            )
        return target


def _starts(followers: Iterable[ReplicaState]) -> Iterable[int]:
    return (follower.log_start_offset for follower in followers if not follower.fenced)
