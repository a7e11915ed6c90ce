"""The shard's offset operations. `tests/scripts/groups` covers the group protocol."""

from __future__ import annotations

from random import Random

import pytest

from broker.coordinator.group.classic_group import (
    COMPLETING,
    EMPTY,
    PREPARING,
    STABLE,
    ClassicGroup,
    ClassicGroupMember,
)
from broker.coordinator.group.context import GroupContext, GroupSettings
from broker.coordinator.group.offsets import Committed
from broker.coordinator.group.records import group_tombstone, offset_record, offset_tombstone, read_offset
from broker.coordinator.group.shard import Commit, GroupCoordinatorShard, Offset
from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.coordinator.runtime.timers import Timers
from protocol.errors import ErrorCode, KafkaError

NOW_MS = 1_000_000
TOPIC_ID = b"t" * 16
ONE = [Offset("t", TOPIC_ID, 0, 5, 3, "note")]
OUTSIDER = Commit("g", "", None, -1)
MEMBER = Commit("g", "m", None, 4)


class Silence:
    def info(self, message: str, *args: object) -> None:
        pass

    debug = info


@pytest.fixture
def context() -> GroupContext:
    return GroupContext(0.0, NOW_MS, GroupSettings(offset_metadata_max_bytes=8), Timers(), Random(1), Silence())


def shard_with(
    state: str, protocol_type: str = "consumer", topics: frozenset[str] | None = None
) -> GroupCoordinatorShard:
    shard = GroupCoordinatorShard()
    group = shard.groups["g"] = ClassicGroup("g", 0)
    group.generation = 4
    group.add(
        ClassicGroupMember(
            "g", "m", instance_id=None, client_id="c", client_host="/h", rebalance_timeout_ms=60_000,
            session_timeout_ms=10_000, protocol_type=protocol_type, protocols={"range": b""},
        )
    )  # fmt: skip
    if state == EMPTY:
        group.remove("m")
    group.state = state
    group.subscribed_topics = frozenset() if state == EMPTY else topics
    return shard


def written(
    shard: GroupCoordinatorShard, context: GroupContext, committer: Commit, offsets: list[Offset] = ONE, **options: bool
) -> GroupCoordinatorShard:
    records, *_ = shard.commit(context, committer, offsets, **options)
    for at, (key, value) in enumerate(records):
        shard.replay(NOW_MS, at, key, value)
    return shard


class TestCommitPermission:
    @pytest.mark.parametrize("committer", [OUTSIDER, OUTSIDER._replace(member_id="unknown")])
    def test_any_client_commits_to_a_group_without_members(self, context: GroupContext, committer: Commit) -> None:
        assert shard_with(EMPTY).commit(context, committer, ONE)[1] == [ErrorCode.NONE]

    def test_commit_to_unknown_group_creates_a_simple_group(self, context: GroupContext) -> None:
        shard = written(GroupCoordinatorShard(), context, OUTSIDER)
        assert (shard.groups["g"].state, shard.groups["g"].protocol_type) == (EMPTY, None)

    @pytest.mark.parametrize("state", [STABLE, PREPARING])
    def test_members_of_the_current_generation_commit(self, context: GroupContext, state: str) -> None:
        assert shard_with(state).commit(context, MEMBER, ONE)[1] == [ErrorCode.NONE]

    @pytest.mark.parametrize(
        ("state", "committer", "error"),
        [
            (STABLE, OUTSIDER, ErrorCode.UNKNOWN_MEMBER_ID),
            (STABLE, MEMBER._replace(member_id="stranger"), ErrorCode.UNKNOWN_MEMBER_ID),
            (STABLE, MEMBER._replace(generation=3), ErrorCode.ILLEGAL_GENERATION),
            (STABLE, MEMBER._replace(generation=-1), ErrorCode.ILLEGAL_GENERATION),
            (STABLE, MEMBER._replace(instance_id="A"), ErrorCode.UNKNOWN_MEMBER_ID),
            (COMPLETING, MEMBER, ErrorCode.REBALANCE_IN_PROGRESS),
            (EMPTY, MEMBER, ErrorCode.UNKNOWN_MEMBER_ID),
        ],
    )
    def test_other_clients_cannot_commit(
        self, context: GroupContext, state: str, committer: Commit, error: ErrorCode
    ) -> None:
        with pytest.raises(KafkaError) as raised:
            shard_with(state).commit(context, committer, ONE)
        assert raised.value.code == error

    @pytest.mark.parametrize(
        ("reports", "error"), [(True, ErrorCode.GROUP_ID_NOT_FOUND), (False, ErrorCode.ILLEGAL_GENERATION)]
    )
    def test_member_of_unknown_group_cannot_commit(
        self, context: GroupContext, reports: bool, error: ErrorCode
    ) -> None:
        with pytest.raises(KafkaError) as raised:
            GroupCoordinatorShard().commit(context, MEMBER, ONE, reports_unknown_group=reports)
        assert raised.value.code == error

    def test_a_members_commit_renews_its_session(self, context: GroupContext) -> None:
        shard = shard_with(STABLE)
        shard.commit(context, MEMBER, ONE)
        assert shard.groups["g"].members["m"].session.deadline == 10.0


class TestCommittedValue:
    def test_commit_record_has_all_request_fields_and_the_commit_time(self, context: GroupContext) -> None:
        [(_, value)], *_ = GroupCoordinatorShard().commit(context, OUTSIDER, ONE)
        assert value is not None
        assert read_offset(value, 7) == Committed(5, 3, "note", NOW_MS, -1, TOPIC_ID, 7)

    def test_requested_retention_sets_the_expire_timestamp(self, context: GroupContext) -> None:
        [(_, value)], *_ = GroupCoordinatorShard().commit(context, OUTSIDER, ONE, retention_ms=60_000)
        assert value is not None
        assert read_offset(value, 7).expire_timestamp_ms == NOW_MS + 60_000

    def test_overflowing_retention_is_capped_at_the_largest_timestamp(self, context: GroupContext) -> None:
        [(_, value)], *_ = GroupCoordinatorShard().commit(context, OUTSIDER, ONE, retention_ms=2**63 - 1)
        assert value is not None
        assert read_offset(value, 7).expire_timestamp_ms == 2**63 - 1

    def test_oversized_metadata_is_refused(self, context: GroupContext) -> None:
        offsets = [*ONE, ONE[0]._replace(partition=1, metadata="123456789")]
        records, errors, *_ = GroupCoordinatorShard().commit(context, OUTSIDER, offsets)
        assert errors == [ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]
        assert len(records) == 1

    def test_state_changes_only_when_records_are_replayed(self, context: GroupContext) -> None:
        shard = GroupCoordinatorShard()
        shard.commit(context, OUTSIDER, ONE)
        assert shard.groups == {}
        assert shard.offsets.get("g", "t", 0) is None


class TestFetch:
    @pytest.mark.parametrize(("topic_id", "found"), [(TOPIC_ID, True), (bytes(16), True), (b"u" * 16, False)])
    def test_offset_of_a_deleted_topic_with_the_same_name_is_not_returned(
        self, context: GroupContext, topic_id: bytes, found: bool
    ) -> None:
        """Rule 24: a recreated topic never gets the offsets of the deleted one."""
        shard = written(GroupCoordinatorShard(), context, OUTSIDER)
        assert (shard.fetch("g", "t", topic_id, 0) is not None) is found


class TestDeleteOffsets:
    def test_only_existing_offsets_get_a_tombstone(self, context: GroupContext) -> None:
        shard = written(GroupCoordinatorShard(), context, OUTSIDER)
        records, errors, *_ = shard.delete_offsets("g", [("t", 0), ("t", 9)])
        assert records == [offset_tombstone("g", "t", 0)]
        assert errors == [ErrorCode.NONE, ErrorCode.NONE]

    def test_pending_transactional_offset_gets_a_tombstone(self, context: GroupContext) -> None:
        shard = shard_with(EMPTY)
        key, value = offset_record("g", "t", 0, Committed(5, -1, "", 0))
        shard.replay(NOW_MS, 0, key, value, ProducerIdAndEpoch(7, 0))
        assert shard.delete_offsets("g", [("t", 0)])[0] == [offset_tombstone("g", "t", 0)]

    def test_offsets_of_subscribed_topics_are_not_deleted(self) -> None:
        shard = shard_with(STABLE, topics=frozenset({"t"}))
        assert shard.delete_offsets("g", [("t", 0), ("u", 0)])[1] == [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            ErrorCode.NONE,
        ]

    def test_offsets_of_groups_of_other_protocol_types_are_not_deleted(self) -> None:
        with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
            shard_with(STABLE, "connect").delete_offsets("g", [("t", 0)])


def expired(shard: GroupCoordinatorShard, context: GroupContext) -> list[tuple[bytes, bytes | None]]:
    return [record for records in shard.expire(context) for record in records]


def forgotten(shard: GroupCoordinatorShard, topic_id: bytes) -> list[tuple[bytes, bytes | None]]:
    return [record for records in shard.forget_topics([("t", topic_id)]) for record in records]


class TestExpiry:
    def test_empty_group_without_offsets_expires(self, context: GroupContext) -> None:
        assert expired(shard_with(EMPTY), context) == [group_tombstone("g")]

    def test_group_with_a_pending_member_does_not_expire(self, context: GroupContext) -> None:
        shard = shard_with(EMPTY)
        shard.groups["g"].add_pending("m2")
        assert expired(shard, context) == []

    @pytest.mark.parametrize("state", [PREPARING, COMPLETING, STABLE])
    def test_group_with_members_is_kept(self, context: GroupContext, state: str) -> None:
        assert expired(shard_with(state), context) == []


class TestDeletedTopics:
    def test_offsets_of_the_topic_are_deleted_in_every_group(self, context: GroupContext) -> None:
        shard = written(GroupCoordinatorShard(), context, OUTSIDER)
        written(shard, context, OUTSIDER._replace(group_id="h"))
        assert forgotten(shard, TOPIC_ID) == [
            offset_tombstone("g", "t", 0),
            offset_tombstone("h", "t", 0),
        ]

    def test_pending_transactional_offsets_of_the_topic_are_deleted(self) -> None:
        shard = GroupCoordinatorShard()
        key, value = offset_record("g", "t", 3, Committed(5, -1, "", 0, topic_id=TOPIC_ID))
        shard.replay(0, 0, key, value, ProducerIdAndEpoch(7, 0))
        assert forgotten(shard, TOPIC_ID) == [offset_tombstone("g", "t", 3)]

    def test_offsets_of_a_recreated_topic_are_not_deleted(self, context: GroupContext) -> None:
        shard = written(GroupCoordinatorShard(), context, OUTSIDER)
        assert forgotten(shard, b"u" * 16) == []
