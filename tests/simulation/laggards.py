"""A follower that falls behind leaves the ISR while faults go on: the leaders are held against the followers' own logs.

Without this, an ISR that never shrinks shows only where a broker dies too: the controller takes fenced brokers out, and
in the end, when everything works, no follower lags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.violation import Invariant

if TYPE_CHECKING:
    from broker.replication.partition import Partition
    from tests.simulation.cluster import Host, World

_EVERY_S = 0.1
_LAGS = 3
"""A leader acts within this many `replica.lag.time.max.ms`: it looks every half of it, by its own clock."""


class _Behind(NamedTuple):
    """Since when, and until which offset, a follower has been behind in a leader epoch."""

    since_s: float
    end_offset: int
    leader_epoch: int


class Laggards:
    """Looks at the partitions that a host leads, a few times a second."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._looked_s: dict[str, float] = {}
        self._behind: dict[tuple[str, int, bytes, int, str], _Behind] = {}

    def look(self, host: Host) -> None:
        """Check every partition that `host` leads, unless that was done a moment ago."""
        now_s = self._world.schedule.now
        looked_s = self._looked_s.get(host.name, now_s)
        if host.broker is None or (now_s - looked_s < _EVERY_S and host.name in self._looked_s):
            return
        self._looked_s[host.name] = now_s
        limit_s = _LAGS * host.settings["replica.lag.time.max.ms"] / 1000
        stood_still = now_s - looked_s > limit_s / _LAGS
        for partition in host.broker.replicas.partitions:
            if partition.is_leader and not partition.log.offline:
                for other in host.cluster:
                    if other is not host and other.node_id in partition.isr:
                        self._check(host, partition, other, limit_s, stood_still=stood_still)

    def _check(self, host: Host, partition: Partition, other: Host, limit_s: float, *, stood_still: bool) -> None:
        now_s, key = self._world.schedule.now, (host.name, host.starts, partition.topic_id, partition.index, other.name)
        replica = other.broker.replicas.find(partition.topic_id, partition.index) if other.broker is not None else None
        reached = -1 if replica is None else replica.log.log_end_offset
        # What it had fetched before it lost it: the leader learns of that when it comes back.
        reached = max(reached, partition.followers[other.node_id].log_end_offset)
        newest = self._world.newest
        state = None if newest is None else newest.partition(partition.topic, partition.index)
        known = self._behind.get(key)
        if (
            known is None
            or stood_still
            or reached >= known.end_offset
            or known.leader_epoch != partition.leader_epoch
            or partition.proposed_isr is not None
            or state is None
            or state.partition_epoch != partition.partition_epoch
            or self._world.leader_epoch((host.name, 0), partition.topic, partition.index) != partition.leader_epoch
        ):
            self._behind[key] = _Behind(now_s, partition.log.log_end_offset, partition.leader_epoch)
            return
        behind_s = now_s - known.since_s
        self._world.check(
            Invariant.LAGGARDS_LEAVE,
            behind_s < limit_s,
            f"{partition} on {host.name}: {other.name} is in sync, and {behind_s:.1f} s behind {known.end_offset}",
        )
