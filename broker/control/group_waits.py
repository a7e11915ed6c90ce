"""Waits for consumer groups: until a group is stable, until its lag is small enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from broker.control.bodies import NumberRange
from broker.control.groups import describe_members, described, group_host, tracked_partitions
from broker.control.log_ends import LogEnds, TopicPartition, log_ends
from broker.control.waiting import (
    DEFAULT_TIMEOUT_MS,
    TimeoutMs,
    coordinator_changes,
    metadata_changes,
    until,
    wait_result,
)
from broker.coordinator.group.classic_group import STABLE
from protocol.plural import count_of

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.control.control import Control
    from broker.coordinator.group.shard import GroupCoordinatorShard


class StableWait(NamedTuple):
    """A wait for a stable group, with so many members if that is given."""

    group: str
    members: Annotated[int, NumberRange(0)] | None = None
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS


class LagWait(NamedTuple):
    """A wait for a group's lag, summed over `topics` or else over those that it subscribes to or has offsets of."""

    group: str
    lag: Annotated[int, NumberRange(0)] = 0
    topics: list[str] | None = None
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS


async def wait_until_stable(control: Control, body: StableWait) -> dict[str, Any]:
    """Wait until a group is stable: every member has its assignment. With 0 members: until it is empty or gone."""
    broker = control.broker

    async def is_stable() -> bool:
        host = await group_host(broker, body.group)
        if host is None:
            return False
        group = host.shard.groups.get(body.group)
        if body.members == 0:
            return group is None or not (group.members or group.pending)
        return group is not None and group.state == STABLE and body.members in (None, len(group.members))

    met = await until(is_stable, _changes(broker), body.timeout_ms)
    shard = await _shard(broker, body.group)
    known = shard is not None and body.group in shard.groups
    seen = described(shard, body.group, {}) if shard is not None and known else {}
    members = "" if body.members is None else f" with {count_of(body.members, 'member')}"
    return wait_result(
        met, f"group {body.group} is stable{members}", body.timeout_ms, seen, _state_text(shard, body.group)
    )


async def wait_for_lag(control: Control, body: LagWait) -> dict[str, Any]:
    """Wait until a group has consumed and committed all but `lag` records.

    Only a commit makes the lag smaller, so the ends of logs led by other brokers are requested only when the last ones
    known would end the wait.
    """
    broker = control.broker
    ends: dict[TopicPartition, LogEnds] = {}

    def lag_of(shard: GroupCoordinatorShard) -> int:
        return sum(one["lag"] for one in described(shard, body.group, ends)["offsets"])

    async def is_consumed() -> bool:
        nonlocal ends
        host = await group_host(broker, body.group)
        if host is None or body.group not in host.shard.groups:
            return False
        partitions = tracked_partitions(broker, host.shard, body.group, tuple(body.topics or ()))
        if set(partitions) - ends.keys() or lag_of(host.shard) <= body.lag:
            ends = await log_ends(broker, partitions)
            return bool(partitions) and len(ends) == len(partitions) and lag_of(host.shard) <= body.lag
        return False

    met = await until(is_consumed, _changes(broker), body.timeout_ms)
    shard = await _shard(broker, body.group)
    wanted = f"lag of group {body.group} is at most {body.lag}"
    if shard is None or body.group not in shard.groups:
        return wait_result(met, wanted, body.timeout_ms, {}, _state_text(shard, body.group))
    ends = await log_ends(broker, tracked_partitions(broker, shard, body.group, tuple(body.topics or ())))
    seen = described(shard, body.group, ends)
    behind = [
        f"{one['topic']}-{one['partition']}: committed {one['committed']} of {one['log_end']}"
        for one in seen["offsets"]
        if one["lag"]
    ]
    text = "; ".join([f"its lag is {lag_of(shard)}", *behind, _state_text(shard, body.group)])
    return wait_result(met, wanted, body.timeout_ms, seen, text)


def _changes(broker: BrokerServer) -> list[Any]:
    return [coordinator_changes(broker.groups.runtime), metadata_changes(broker.raft)]


async def _shard(broker: BrokerServer, group: str) -> GroupCoordinatorShard | None:
    host = await group_host(broker, group)
    return None if host is None else host.shard


def _state_text(shard: GroupCoordinatorShard | None, group_id: str) -> str:
    if shard is None:
        return f"the coordinator is loading group {group_id}"
    group = shard.groups.get(group_id)
    if group is None:
        return f"no member of group {group_id} has joined, and it has no offsets"
    return f"group {group_id} is {group.state} in generation {group.generation}; {describe_members(group)}"
