"""Availability during a fault: a lagging follower leaves the ISR, and acks=all continues without it.

The check runs while everything else works: the leader and one follower of a partition of three replicas lose their
connection, but both reach the active controller, which therefore does not fence the follower. Only the leader can
remove it from the ISR.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from simulation.violation import Invariant

if TYPE_CHECKING:
    from controller.image import PartitionImage
    from simulation.cluster import Host, World
    from tests.simulation.producers import Producer

_REPLICAS = 3
_SLACK_S = 5.0
_MAX_PAUSE_S = 1.0
"""The longest pause of the producer between two attempts: the limit is for the brokers, not for its backoff."""


async def lagging_follower_leaves(world: World, producer: Producer) -> None:
    """Partition a follower from the leader of a partition to which `producer` writes with acks=all, until it leaves the
    ISR.
    """
    found = _choose(world, producer)
    if found is None:
        return
    index, leader, follower = found
    name, topic = f"{producer.topic.name}-{index}", producer.topic.name
    limit_s = 2 * leader.settings["replica.lag.time.max.ms"] / 1000 + _SLACK_S
    links = world.network.link(leader.name, follower.name), world.network.link(follower.name, leader.name)
    for link in links:
        link.up = False
    producer.client.max_pause_s = _MAX_PAUSE_S
    went_on, waits_for = False, "a produce request with acks=all is not acknowledged"
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await producer.send(index)
            waits_for = "it has not left the ISR"
            while _has(world, topic, index, leader, follower):
                await asyncio.sleep(0.1)
            went_on = True
    world.check(
        Invariant.ACKS_ALL_GOES_ON,
        went_on,
        f"{name}: {follower.name} does not reach its leader {leader.name}, and {limit_s:.1f} s later {waits_for};"
        f" {_state(world, topic, index)}",
    )
    for link in links:
        link.up = True
    world.count("followers that left the ISR")


def _choose(world: World, producer: Producer) -> tuple[int, Host, Host] | None:
    """Return a partition, its leader and a follower, neither of them the active controller; None if there is none."""
    hosts = {host.node_id: host for host in world.hosts if host.node is not None and not host.node.shared.raft.leads}
    min_isr = world.hosts[0].settings["min.insync.replicas"]
    for index in range(producer.topic.partitions):
        state = _state(world, producer.topic.name, index)
        if state is None or len(state.isr) <= min_isr or len(state.replicas) < _REPLICAS or state.leader not in hosts:
            continue
        followers = [hosts[one] for one in state.isr if one != state.leader and one in hosts]
        if followers:
            return index, hosts[state.leader], followers[-1]
    return None


def _state(world: World, topic: str, index: int) -> PartitionImage | None:
    return world.newest.partition(topic, index) if world.newest is not None else None


def _has(world: World, topic: str, index: int, leader: Host, follower: Host) -> bool:
    """Return whether the follower is in the ISR of that leader."""
    state = _state(world, topic, index)
    return state is not None and state.leader == leader.node_id and follower.node_id in state.isr
