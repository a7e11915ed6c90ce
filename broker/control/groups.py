"""Consumer groups: description, forced rebalances and expired sessions, at the group's coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.control.api_problem import conflict, misdirected, not_found
from broker.control.log_ends import LogEnds, TopicPartition, log_ends
from broker.coordinator.group.classic_group import (
    COMPLETING,
    CONSUMER,
    PREPARING,
    STABLE,
    ClassicGroup,
    ClassicGroupMember,
    SessionTimeout,
    read_subscription,
)
from broker.coordinator.group.context import GroupContext
from broker.coordinator.group.rebalance import prepare
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.runtime.shard_host import ShardHost
from broker.metadata.internal_topics import ensure_internal_topic
from controller.topic_names import CONSUMER_OFFSETS
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.plural import count_of
from protocol.records.consumer_protocol import ConsumerProtocolAssignment, decode_versioned

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.control.control import Control

_Host = ShardHost[GroupCoordinatorShard, GroupContext]


class ExpireBody(NamedTuple):
    """The members whose sessions expire: one by its id, those of a client, or all."""

    member: str | None = None
    client_id: str | None = None


async def list_groups(control: Control) -> dict[str, Any]:
    """Return the groups that this broker coordinates, with their states and numbers of members."""
    coordinator = control.broker.group_coordinator
    shards = [] if coordinator is None else coordinator.runtime.active_shards()
    return {
        "groups": [
            {"group": group.group_id, "state": group.state, "members": len(group.members)}
            for shard in shards
            for group in shard.groups.values()
        ]
    }


async def describe_group(control: Control, group: str) -> dict[str, Any]:
    """Return a group's state, members, offsets and lag."""
    broker = control.broker
    host = await group_host(broker, group)
    if host is None or group not in host.shard.groups:
        raise not_found(f"there is no group {group}; there are: {_names(broker)}")
    ends = await log_ends(broker, tracked_partitions(broker, host.shard, group, ()))
    return described(host.shard, group, ends)


async def rebalance_group(control: Control, group: str) -> dict[str, Any]:
    """Start a rebalance, as if a member's metadata had changed; return the group."""
    host, found = await _existing(control.broker, group)
    if found.state in (STABLE, COMPLETING):
        host.run(lambda context: _prepare(context, found))
    elif found.state != PREPARING:
        raise conflict(f"group {group} is {found.state}: it has no members to rebalance")
    return described(host.shard, group, {})


async def expire_sessions(control: Control, group: str, body: ExpireBody) -> dict[str, Any]:
    """Expire the sessions of members, as if they had sent nothing for their session timeouts; return which."""
    host, found = await _existing(control.broker, group)
    chosen = [
        member.member_id
        for member in found.members.values()
        if body.member in (None, member.member_id) and body.client_id in (None, member.client_id)
    ]
    if not chosen:
        raise not_found(f"group {group} has no such member; {describe_members(found)}")
    # A session does not expire while a join or sync of the member waits.
    waiting = [name for name in chosen if found.members[name].keeps_session]
    if waiting:
        raise conflict(
            f"group {group} is {found.state}, and the JoinGroup or SyncGroup of {waiting[0]} waits: try later"
        )
    for member_id in chosen:
        host.fire(SessionTimeout(group, member_id))
    return {"expired": chosen}


def _prepare(context: GroupContext, group: ClassicGroup) -> None:
    prepare(context, group, "requested through the control API")


async def _existing(broker: BrokerServer, group: str) -> tuple[_Host, ClassicGroup]:
    host = await group_host(broker, group)
    found = None if host is None else host.shard.groups.get(group)
    if host is None or found is None:
        raise not_found(f"there is no group {group}; there are: {_names(broker)}")
    return host, found


async def group_host(broker: BrokerServer, group: str) -> _Host | None:
    """Return the shard of a group; None while it is loading, or its partition is not in this broker's metadata yet.

    `ApiProblem` if another broker is the coordinator.
    """
    try:
        await ensure_internal_topic(broker, CONSUMER_OFFSETS)
    except KafkaError as error:
        if error.code is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
            raise
        return None
    try:
        return broker.groups.runtime.host_of(group)
    except KafkaError as error:
        if error.code is not ErrorCode.NOT_COORDINATOR:
            return None
    state = broker.image.partition(CONSUMER_OFFSETS, broker.groups.runtime.partition_of(group))
    leader = -1 if state is None else state.leader
    if leader == broker.node_id:
        return None  # elected, and about to load
    raise misdirected(f"the coordinator of group {group}", leader)


def tracked_partitions(
    broker: BrokerServer, shard: GroupCoordinatorShard, group: str, topics: tuple[str, ...]
) -> list[TopicPartition]:
    """Return the partitions of `topics`, or else of those that the group subscribes to or has offsets of."""
    named = set(topics)
    if not topics:
        named |= shard.offsets.of_group(group).keys()
        found = shard.groups.get(group)
        named |= (found.subscribed_topics or frozenset()) if found is not None else frozenset()
    images = (broker.image.topic(name) for name in sorted(named))
    return [(topic.name, index) for topic in images if topic is not None for index in sorted(topic.partitions)]


def described(shard: GroupCoordinatorShard, group_id: str, ends: Mapping[TopicPartition, LogEnds]) -> dict[str, Any]:
    """Return a group as JSON, with the offsets of the partitions in `ends`."""
    group = shard.groups[group_id]
    offsets = []
    for (topic, index), (start, end) in ends.items():
        committed = shard.offsets.get(group_id, topic, index)
        offset = None if committed is None else committed.offset
        lag = max(0, end - (start if offset is None else offset))
        offsets.append({"topic": topic, "partition": index, "committed": offset, "log_end": end, "lag": lag})
    return {
        "group": group.group_id,
        "state": group.state,
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.leader,
        "members": [_described_member(group, member) for member in group.members.values()],
        "offsets": offsets,
    }


def _described_member(group: ClassicGroup, member: ClassicGroupMember) -> dict[str, Any]:
    subscribed = read_subscription(member.protocols.get(group.protocol or "", b""))
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "topics": subscribed if group.protocol_type == CONSUMER else None,
        "assignment": _assignment(member) if group.protocol_type == CONSUMER else None,
    }


def _assignment(member: ClassicGroupMember) -> list[dict[str, Any]]:
    if not member.assignment:
        return []
    try:
        _, assignment = decode_versioned(ConsumerProtocolAssignment, member.assignment)
    except DecodeError:
        return []
    return [{"topic": one.topic, "partitions": list(one.partitions)} for one in assignment.assigned_partitions]


def describe_members(group: ClassicGroup) -> str:
    """Return the members of a group for a message: "it has 2 members: a (client x at 127.0.0.1), ..."."""
    members = ", ".join(
        f"{member.member_id} (client {member.client_id} at {member.client_host.lstrip('/')})"
        for member in group.members.values()
    )
    return f"it has {count_of(len(group.members), 'member')}{f': {members}' if members else ''}"


def _names(broker: BrokerServer) -> str:
    return (
        ", ".join(sorted(group for shard in broker.groups.runtime.active_shards() for group in shard.groups)) or "none"
    )
