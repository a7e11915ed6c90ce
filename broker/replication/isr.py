"""The ISR rules (Kafka: `Partition.maybeShrinkIsr`, `maybeExpandIsr`): which followers leave it and which may join it.

    leaves   a member behind the leader's end for longer than `replica.lag.time.max.ms` (`ReplicaState.lags`)
    joins    a replica whose log end offset is at least the high watermark and the start offset of this leader's
             epoch, so no leader elected from the ISR can lack a committed record; whose log start offset is at
             least the leader's, so no such leader brings deleted records back; that would not leave again at
             once; and whose broker is neither fenced nor shutting down and fetches with its registered broker
             epoch (KIP-903): a broker that restarted with fewer records has another epoch
    awaited  a replica that may join but for a few records: it bounds the high watermark as a member does. Otherwise,
             with the leader alone in the ISR, the high watermark would stay at the leader's end, ahead of any replica

At most one change of a partition is in flight; `alter_partition_manager` tracks it. Pure: time and the brokers of the
metadata image are passed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.replication.replica_state import NO_EPOCH, NO_OFFSET, ReplicaState

if TYPE_CHECKING:
    from broker.replication.partition import Partition
    from controller.image import BrokerImage

    Brokers = Mapping[int, BrokerImage]


def without_laggards(partition: Partition, now_ms: int, lag_max_ms: int) -> frozenset[int] | None:
    """Return the ISR without the lagging members; None if there are none, or if a change is in flight."""
    if partition.proposed_isr is not None:
        return None
    end = partition.log.log_end_offset
    followers = partition.followers.values()
    lagging = {one.broker for one in followers if one.broker in partition.isr and one.lags(end, now_ms, lag_max_ms)}
    return partition.isr - lagging if lagging else None


def with_joiners(partition: Partition, brokers: Brokers, now_ms: int, lag_max_ms: int) -> frozenset[int] | None:
    """Return the ISR with the replicas that may join; None if there are none, or if a change is in flight."""
    if partition.proposed_isr is not None or len(partition.isr) == len(partition.replicas):
        return None
    outside = (one for one in partition.followers.values() if one.broker not in partition.isr)
    end = partition.log.log_end_offset
    joining = {
        one.broker
        for one in outside
        if _has_all(partition, one) and not one.lags(end, now_ms, lag_max_ms) and is_eligible(one, brokers)
    }
    return partition.isr | joining if joining else None


def is_eligible(follower: ReplicaState, brokers: Brokers) -> bool:
    """Return whether the follower's broker is active, and fetched with its registered broker epoch (or without one)."""
    known = brokers.get(follower.broker)
    if known is None or not known.active or follower.log_end_offset == NO_OFFSET:
        return False
    return follower.broker_epoch in (NO_EPOCH, known.epoch)


def is_awaited(partition: Partition, follower: ReplicaState, brokers: Brokers, now_ms: int, lag_max_ms: int) -> bool:
    """Return whether a replica outside the ISR bounds the high watermark."""
    if follower.broker in partition.isr:
        return False
    return not follower.lags(partition.log.log_end_offset, now_ms, lag_max_ms) and is_eligible(follower, brokers)


def _has_all(partition: Partition, follower: ReplicaState) -> bool:
    """Return whether a replica has all committed records and none that the leader has deleted."""
    log = partition.log
    has_committed = follower.log_end_offset >= max(log.high_watermark, partition.epoch_start_offset)
    return has_committed and follower.log_start_offset >= log.log_start_offset
