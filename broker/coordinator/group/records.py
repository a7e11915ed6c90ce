"""Groups and offsets as records of `__consumer_offsets`, in the versions that Apache Kafka 4.3 writes.

A group's record (GroupMetadataValue, version 3) is written to store a generation's assignment, when a static member is
replaced, and when the group becomes empty. A commit (OffsetCommitValue) is version 4, with the topic id, or version 1
if it has its own expiry. Either key without a value is a tombstone. (Kafka: `GroupCoordinatorRecordHelpers`.)
"""

from broker.coordinator.group.classic_group import STABLE, ClassicGroup, ClassicGroupMember
from broker.coordinator.group.offsets import Committed, Key
from broker.coordinator.runtime.context import Record
from protocol.records.offsets import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue

OFFSET_KIND = 1
OLD_OFFSET_KIND = 0
GROUP_KIND = 2
"""Kinds of keys: the first two bytes, the key's version. Offsets have two, with the same format."""

_GROUP_VERSION = 3
_OFFSET_VERSION = 4
_EXPIRING_OFFSET_VERSION = 1


def group_record(group: ClassicGroup, assignments: dict[str, bytes]) -> Record:
    """Return the record of a group, with the assignment of each member."""
    protocol = group.protocol
    members = [
        GroupMetadataValue.MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.protocols[protocol] if protocol is not None else b"",
            assignment=assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=protocol,
        leader=group.leader,
        current_state_timestamp=-1 if group.state_timestamp_ms is None else group.state_timestamp_ms,
        members=members,
    )
    return _group_key(group.group_id), _versioned(value, _GROUP_VERSION)


def new_group_record(group: ClassicGroup) -> Record:
    """Return the record of a group without a completed generation."""
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=-1 if group.state_timestamp_ms is None else group.state_timestamp_ms,
        members=[],
    )
    return _group_key(group.group_id), _versioned(value, _GROUP_VERSION)


def group_tombstone(group_id: str) -> Record:
    """Return the tombstone of a group."""
    return _group_key(group_id), None


def read_group(group_id: str, stored: bytes, now_ms: int) -> ClassicGroup:
    """Return the group in a record's value: empty, or stable with its members and their assignments."""
    value = GroupMetadataValue.decode(stored[2:], _version(stored))
    group = ClassicGroup(group_id, now_ms)
    group.generation = value.generation
    group.protocol = value.protocol
    group.leader = value.leader
    group.state_timestamp_ms = None if value.current_state_timestamp == -1 else value.current_state_timestamp
    for member in value.members:
        rebalance_ms = member.session_timeout if member.rebalance_timeout == -1 else member.rebalance_timeout
        group.add(
            ClassicGroupMember(
                group_id,
                member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=rebalance_ms,
                session_timeout_ms=member.session_timeout,
                protocol_type=value.protocol_type,
                protocols={value.protocol or "": member.subscription},
                assignment=member.assignment,
            )
        )
    if group.leader not in group.members:
        group.leader = next(iter(group.members), None)
    group.protocol_type = value.protocol_type or None
    group.subscribed_topics = group.read_subscriptions()
    if group.members:
        group.state = STABLE
    return group


def offset_record(group_id: str, topic: str, partition: int, committed: Committed) -> Record:
    """Return the record of a commit."""
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    expires = committed.expire_timestamp_ms >= 0
    version = _EXPIRING_OFFSET_VERSION if expires else _OFFSET_VERSION
    return _offset_key(group_id, topic, partition), _versioned(value, version)


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """Return the tombstone of a commit."""
    return _offset_key(group_id, topic, partition), None


def read_offset(stored: bytes, record_offset: int) -> Committed:
    """Return the commit in the value of the record at `record_offset`."""
    value = OffsetCommitValue.decode(stored[2:], _version(stored))
    return Committed(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
        record_offset,
    )


def kind_of(key: bytes) -> int:
    """Return the kind of a key."""
    return int.from_bytes(key[:2], "big")


def read_offset_key(key: bytes) -> Key:
    """Return the key of a commit."""
    read = OffsetCommitKey.decode(key[2:], 0)
    return read.group, read.topic, read.partition


def read_group_key(key: bytes) -> str:
    """Return the group id in a group's key."""
    return GroupMetadataKey.decode(key[2:], 0).group


def _offset_key(group_id: str, topic: str, partition: int) -> bytes:
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return OFFSET_KIND.to_bytes(2, "big") + key.encode(0)


def _group_key(group_id: str) -> bytes:
    return GROUP_KIND.to_bytes(2, "big") + GroupMetadataKey(group=group_id).encode(0)


def _versioned(value: GroupMetadataValue | OffsetCommitValue, version: int) -> bytes:
    return version.to_bytes(2, "big") + value.encode(version)


def _version(stored: bytes) -> int:
    return int.from_bytes(stored[:2], "big")
