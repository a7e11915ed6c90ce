"""One partition of `__consumer_offsets`: its groups and their offsets (Kafka: `GroupCoordinatorShard`).

There are two kinds of changes. The response to either waits until its records are below the high watermark:

- The group protocol (`join`, `sync`, `leave`, `fire`) changes state before its records are written: it changes which
  members are waited for. It emits an `Append`, continues in its `then`, and undoes a failure there.
- All other operations (`commit`, `commit_transactional`, `delete_offsets`, `delete_group`, `expire`) only return
  records. The runtime appends them and passes them to `replay`; if the append fails, no state has changed.

`replay` also loads the partition after an election. A loaded group is stable or empty; its members continue to send
heartbeats, each with a new session.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker.coordinator.group import join, leave, records, sync
from broker.coordinator.group.classic_group import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    ClassicGroup,
    JoinTimeout,
    SessionTimeout,
    SyncTimeout,
)
from broker.coordinator.group.context import GroupContext, Join, Joined, Leaving, Left, Sync, Synced
from broker.coordinator.group.offsets import Committed, Key, Offsets
from broker.coordinator.group.rebalance import (
    handle_join_timeout,
    handle_sync_timeout,
    prepare,
    refuse_join,
    refuse_sync,
    renew_session,
)
from broker.coordinator.runtime.context import CoordinatorResponse, CoordinatorResult, ProducerIdAndEpoch, Record
from broker.coordinator.runtime.timers import Timers
from protocol.errors import ErrorCode, KafkaError
from protocol.plural import count_of

_NEVER_MS = 2**63 - 1


class Commit(NamedTuple):
    """The committer. A generation below 0 is a commit from outside the group; allowed if it has no members."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int


class Offset(NamedTuple):
    """One offset to be committed."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class GroupCoordinatorShard:
    """The groups of one partition, while this broker leads it."""

    __slots__ = ("groups", "offsets")

    def __init__(self) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()

    # The group protocol.

    def join(self, context: GroupContext, request: Join, to: object) -> None:
        """Answer a join at `to`; a new group is stored before any response that mentions it."""
        group = self.groups.get(request.group_id)
        if group is not None:
            join.join(context, group, request, to)
        elif request.member_id:
            context.answer(to, Joined(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        elif not (request.protocol_type and request.protocols):
            context.answer(to, Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        else:
            self._join_first(context, request, to)

    def _join_first(self, context: GroupContext, request: Join, to: object) -> None:
        group = self.groups[request.group_id] = ClassicGroup(request.group_id, context.now_ms)
        record = records.new_group_record(group)
        first = len(context.effects)
        join.join(context, group, request, to)
        held = context.effects[first:]
        del context.effects[first:]

        def then(context: GroupContext, error: ErrorCode) -> None:
            if error == ErrorCode.NONE:
                context.effects += held
                return
            for effect in held:
                if isinstance(effect, CoordinatorResponse):
                    context.answer(effect.to, Joined(error))
            if self.groups.get(group.group_id) is group:
                del self.groups[group.group_id]
                _close(context, group, error)
                if self.offsets.of_group(group.group_id):
                    # Offsets were committed meanwhile: keep a simple group, or they would never expire.
                    self.groups[group.group_id] = ClassicGroup(group.group_id, context.now_ms)

        context.append([record], then)

    def sync(self, context: GroupContext, request: Sync, to: object) -> None:
        """Answer a sync at `to`."""
        group = self.groups.get(request.group_id)
        if group is None:
            context.answer(to, Synced(ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            sync.sync(context, group, request, to)

    def heartbeat(
        self, timers: Timers, now: float, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Renew a member's session, and return the Heartbeat error code."""
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = leave.heartbeat(group, member_id, instance_id, generation)
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            member = group.members[member_id]
            timers.schedule(member.session, now + member.session_timeout_ms / 1000)
        return error

    def leave(self, context: GroupContext, group_id: str, members: list[Leaving], to: object) -> None:
        """Remove members, and answer at `to`."""
        group = self.groups.get(group_id)
        if group is None:
            context.answer(to, Left(ErrorCode.NONE, (ErrorCode.UNKNOWN_MEMBER_ID,) * len(members)))
        else:
            leave.leave(context, group, members, to)

    def fire(self, context: GroupContext, event: SessionTimeout | JoinTimeout | SyncTimeout) -> None:
        """Handle a timer event of a group."""
        group = self.groups.get(event.group_id)
        if group is None:
            return
        if isinstance(event, SessionTimeout):
            leave.session_expired(context, group, event.member_id)
        elif isinstance(event, JoinTimeout):
            handle_join_timeout(context, group)
        else:
            handle_sync_timeout(context, group)

    # Offsets.

    def commit(
        self,
        context: GroupContext,
        committer: Commit,
        offsets: list[Offset],
        *,
        retention_ms: int = -1,
        reports_unknown_group: bool = True,
    ) -> CoordinatorResult[list[ErrorCode]]:
        """Return the records of a commit, and an error code for each offset.

        Raise KafkaError if the whole commit is refused. A member's commit renews its session, as a heartbeat does.
        """
        group = self.groups.get(committer.group_id)
        if group is not None:
            _check_committer(group, committer)
            member = group.members.get(committer.member_id)
            if member is not None and group.state in (STABLE, PREPARING):
                renew_session(context, member)
        elif committer.generation >= 0:
            unknown = ErrorCode.GROUP_ID_NOT_FOUND if reports_unknown_group else ErrorCode.ILLEGAL_GENERATION
            raise KafkaError(unknown, f"Group {committer.group_id} not found.")
        expire_ms = -1 if retention_ms < 0 else min(context.now_ms + retention_ms, _NEVER_MS)
        return CoordinatorResult(*_offset_records(context, committer.group_id, offsets, expire_ms))

    def commit_transactional(
        self, context: GroupContext, committer: Commit, producer: ProducerIdAndEpoch, offsets: list[Offset]
    ) -> CoordinatorResult[list[ErrorCode]]:
        """Return the records of a commit in a producer's transaction, and an error code for each offset.

        Raise KafkaError if the whole commit is refused. It neither renews the member's session nor depends on the
        group's state: a rebalance must not fail a transaction whose producer is still a member (KIP-447).
        """
        group = self.groups.get(committer.group_id)
        if group is not None:
            _check_committer(group, committer, transactional=True)
        elif committer.generation >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        written, errors = _offset_records(context, committer.group_id, offsets, -1)
        return CoordinatorResult(written, errors, producer)

    def delete_offsets(self, group_id: str, partitions: list[tuple[str, int]]) -> CoordinatorResult[list[ErrorCode]]:
        """Return the tombstones for these offsets, and an error code for each partition."""
        group = self._existing(group_id)
        if group.state != EMPTY and group.protocol_type != "consumer":
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        written: list[Record] = []
        errors = []
        for topic, partition in partitions:
            if group.subscribes_to(topic):
                errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            errors.append(ErrorCode.NONE)
            key = (group_id, topic, partition)
            if self.offsets.get(*key) is not None or self.offsets.is_pending(key):
                written.append(records.offset_tombstone(*key))
        return CoordinatorResult(written, errors, is_atomic=False)

    def delete_group(self, group_id: str) -> CoordinatorResult[ErrorCode]:
        """Return the tombstones for a group without members: first its offsets', then its own."""
        group = self._existing(group_id)
        if group.state != EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        keys = self.offsets.pending_of_group(group_id)
        for topic, partitions in self.offsets.of_group(group_id).items():
            keys.update((group_id, topic, partition) for partition in partitions)
        tombstones = [*(records.offset_tombstone(*key) for key in sorted(keys)), records.group_tombstone(group_id)]
        return CoordinatorResult(tombstones, ErrorCode.NONE, is_atomic=False)

    def expire(self, context: GroupContext) -> Iterator[list[Record]]:
        """Yield, for each group, tombstones for its expired offsets, and for itself if it is empty and none is left."""
        for group_id in list(self.groups):
            if (group := self.groups.get(group_id)) is not None:
                keys, none_left = self.offsets.expired(group, context.now_ms, context.settings.offsets_retention_ms)
                written = [records.offset_tombstone(*key) for key in keys]
                if none_left and group.state == EMPTY and not group.pending:
                    written.append(records.group_tombstone(group_id))
                yield written

    def forget_topics(self, topics: list[tuple[str, bytes]]) -> Iterator[list[Record]]:
        """Yield tombstones for each group's offsets of deleted topics (name, id), not of others with the same name."""
        for topic, topic_id in topics:
            for group_id in self.offsets.group_ids():
                yield [records.offset_tombstone(*key) for key in self.offsets.of_topic(topic, topic_id, group_id)]

    def fetch(self, group_id: str, topic: str, topic_id: bytes, partition: int) -> Committed | None:
        """Return the committed offset for a partition of the topic with this id, or None."""
        committed = self.offsets.get(group_id, topic, partition)
        return committed if committed is not None and committed.is_of(topic_id) else None

    def _existing(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    # The partition's log and leadership.

    def replay(
        self, now_ms: int, offset: int, key: bytes, value: bytes | None, producer: ProducerIdAndEpoch | None = None
    ) -> None:
        """Apply a record. Records of other kinds than classic groups and offsets are skipped."""
        kind = records.kind_of(key)
        if kind in (records.OFFSET_KIND, records.OLD_OFFSET_KIND):
            self._replay_offset(now_ms, offset, records.read_offset_key(key), value, producer)
        elif kind == records.GROUP_KIND:
            group_id = records.read_group_key(key)
            if value is None:
                self.groups.pop(group_id, None)
            else:
                self.groups[group_id] = records.read_group(group_id, value, now_ms)

    def _replay_offset(
        self, now_ms: int, offset: int, key: Key, value: bytes | None, producer: ProducerIdAndEpoch | None
    ) -> None:
        if value is None:
            self.offsets.remove(key)
            return
        committed = records.read_offset(value, offset)
        if key[0] not in self.groups:
            self.groups[key[0]] = ClassicGroup(key[0], now_ms)
        self.offsets.put(key, committed, -1 if producer is None else producer.producer_id)

    def replay_end_transaction_marker(self, producer: ProducerIdAndEpoch, committed: bool) -> None:
        """Commit or drop the offsets of a producer's open transaction."""
        self.offsets.end_transaction(producer.producer_id, committed)

    @property
    def content(self) -> str:
        """What the shard holds, for the log."""
        return count_of(len(self.groups), "group") if self.groups else ""

    def loaded(self, context: GroupContext) -> None:
        """Start the session timers of the loaded groups' members; rebalance groups above `group.max.size`."""
        for group in self.groups.values():
            for member in group.members.values():
                renew_session(context, member)
            if len(group.members) > context.settings.max_size:
                prepare(
                    context, group, f"loaded with {count_of(len(group.members), 'member')}, more than group.max.size"
                )

    def unloaded(self, context: GroupContext) -> None:
        """Answer every waiting request with NOT_COORDINATOR, so that clients find the new coordinator."""
        for group in self.groups.values():
            _close(context, group, ErrorCode.NOT_COORDINATOR)


def _offset_records(
    context: GroupContext, group_id: str, offsets: list[Offset], expire_ms: int
) -> tuple[list[Record], list[ErrorCode]]:
    """Return the records of the offsets with valid metadata, and an error code for each offset."""
    written: list[Record] = []
    errors = []
    for one in offsets:
        if len(one.metadata) > context.settings.offset_metadata_max_bytes:
            errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        errors.append(ErrorCode.NONE)
        committed = Committed(one.offset, one.leader_epoch, one.metadata, context.now_ms, expire_ms, one.topic_id)
        written.append(records.offset_record(group_id, one.topic, one.partition, committed))
    return written, errors


def _check_committer(group: ClassicGroup, committer: Commit, *, transactional: bool = False) -> None:
    """Raise KafkaError if a commit is refused (Kafka: `ClassicGroup.validateOffsetCommit`).

    Transactional commits below version 3 have no member; those of members are accepted during a rebalance, too.
    """
    if committer.generation < 0 and group.state == EMPTY:
        return
    if committer.generation >= 0 or committer.member_id or committer.instance_id is not None:
        error = group.check_member(committer.member_id, committer.instance_id)
        if error == ErrorCode.NONE and committer.generation != group.generation:
            error = ErrorCode.ILLEGAL_GENERATION
    else:
        error = ErrorCode.NONE if transactional else ErrorCode.UNKNOWN_MEMBER_ID
    if error == ErrorCode.NONE and group.state == COMPLETING and not transactional:
        error = ErrorCode.REBALANCE_IN_PROGRESS
    if error != ErrorCode.NONE:
        raise KafkaError(error)


def _close(context: GroupContext, group: ClassicGroup, error: ErrorCode) -> None:
    for member in group.members.values():
        refuse_join(context, member, error, member.member_id)
        refuse_sync(context, member, error)
    _cancel_timers(group)
    group.transition_to(DEAD, context.now_ms)


def _cancel_timers(group: ClassicGroup) -> None:
    group.joins.cancel()
    group.syncs.cancel()
    for timer in group.pending.values():
        timer.cancel()
    for member in group.members.values():
        member.session.cancel()
