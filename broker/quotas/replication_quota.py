"""The quota of the replication of throttled replicas (KIP-73; Kafka: `ReplicationQuotaManager`).

A broker has two: of what it sends to followers as leader, and of what it fetches as follower. The topic's
`leader.replication.throttled.replicas` and `follower.replication.throttled.replicas` name the throttled replicas. While
their rate is above the quota, those that are not in sync wait; replicas in sync never wait, so a throttle does not
shrink an ISR, but their bytes count, so that all of the replication is within the quota.

Pure: time is passed in, in ms of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from broker.monitoring.rate import SampleWindow, SimpleRate

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
_ALL = "*"
_LONGEST_MS = 1 << 31


class ReplicationQuota:
    """The rate of the throttled replicas on one side, and its limit."""

    __slots__ = ("_limit", "rate")

    def __init__(self, window: SampleWindow, limit: Callable[[], int | None]) -> None:
        """`limit` returns the quota in bytes per second, None for none."""
        self._limit = limit
        self.rate = SimpleRate(window)

    def record(self, size_bytes: int, now_ms: float) -> None:
        """Count bytes of a throttled replica."""
        if size_bytes:  # a sample of nothing would lengthen the time over which a burst is measured
            self.rate.record(size_bytes, now_ms)

    def throttle_ms(self, now_ms: float) -> int:
        """Return for how long throttled replicas have to wait at most; 0 if the rate is within the quota."""
        limit = self._limit()
        if limit is None or self.rate.per_second(now_ms) <= limit:
            return 0
        if not limit:
            return _LONGEST_MS
        return max(1, round(1000 * self.rate.total(now_ms) / limit - self.rate.measured_ms(now_ms)))


def is_throttled(replicas: str | None, partition: int, broker: int) -> bool:
    """Return whether the value of a topic's `*.replication.throttled.replicas` has a replica."""
    if not replicas:
        return False
    return replicas.strip() == _ALL or (partition, broker) in _pairs(replicas)


@lru_cache(maxsize=4)  # a topic's partitions are looked up one after another
def _pairs(replicas: str) -> frozenset[tuple[int, int]]:
    pairs = (pair.split(":") for pair in replicas.split(","))
    return frozenset((int(partition), int(broker)) for partition, broker in pairs)
