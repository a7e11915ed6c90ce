"""Who is in sync with a leader: which followers are to leave the ISR now, and which may join it.

    leaves   a member that has been behind the leader's end for longer than `replica.lag.time.max.ms`
    joins    a replica that has all that is committed, and all from before this leader's epoch, so that no leader
             elected from the ISR can lack a committed record, and none of what was deleted, so that no such leader
             can bring that back; that would not have to leave again at once, be it that nobody is there any more;
             and whose broker is alive in the very incarnation that fetches (KIP-903): one that came back with less
             on its disk says so by another broker epoch
    awaited  a replica that may join but for a few records: the high watermark waits for it as for a member. Where
             the ISR is the leader alone, that would otherwise always be at the leader's end, and nobody reach it

At most one change of a partition is on its way; what becomes of it is `isr_proposals`'s. Pure: time is passed
in, and so is what the metadata says of brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.replication.replica_state import NO_EPOCH, NO_OFFSET, Follower

if TYPE_CHECKING:
    from broker.replication.partition import Partition
    from controller.image import BrokerImage

    Brokers = Mapping[int, BrokerImage]


def without_laggards(partition: Partition, now_ms: int, lag_max_ms: int) -> frozenset[int] | None:
    """Return the ISR without those who are to leave; None if nobody is, or a change is on its way."""
    if partition.proposed_isr is not None:
        return None
    end = partition.log.log_end_offset
    followers = partition.followers.values()
    lagging = {one.broker for one in followers if one.broker in partition.isr and one.lags(end, now_ms, lag_max_ms)}
    return partition.isr - lagging if lagging else None


def with_joiners(partition: Partition, brokers: Brokers, now_ms: int, lag_max_ms: int) -> frozenset[int] | None:
    """Return the ISR with those who may join; None if nobody may, or a change is on its way."""
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


def is_eligible(follower: Follower, brokers: Brokers) -> bool:
    """Say whether the incarnation that fetches is the one that is registered, and is neither fenced nor stopping."""
    known = brokers.get(follower.broker)
    if known is None or not known.active or follower.log_end_offset == NO_OFFSET:
        return False
    return follower.broker_epoch in (NO_EPOCH, known.epoch)


def is_awaited(partition: Partition, follower: Follower, brokers: Brokers, now_ms: int, lag_max_ms: int) -> bool:
    """Say whether the high watermark is to wait for a replica that is not in sync."""
    if follower.broker in partition.isr:
        return False
    return not follower.lags(partition.log.log_end_offset, now_ms, lag_max_ms) and is_eligible(follower, brokers)


def _has_all(partition: Partition, follower: Follower) -> bool:
    """Say whether a replica has what a leader has to have, and no more than it may."""
    log = partition.log
    has_committed = follower.log_end_offset >= max(log.high_watermark, partition.epoch_start_offset)
    return has_committed and follower.log_start_offset >= log.log_start_offset
