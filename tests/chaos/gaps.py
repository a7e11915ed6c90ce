"""The longest time without an acknowledgement for a partition during a fault: a bound for each kind, and why.

`FAILOVER_S` covers every fault after which clients reach another leader through their open connections. The worst case
is a leader that is also the active controller and hangs:

    controller.quorum.fetch.timeout.ms    2 s    until the other voters detect it
    elections                             2 s    two rounds of controller.quorum.election.timeout.ms
    broker.session.timeout.ms             2 s    which a new active controller grants every broker
    replica.lag.time.max.ms               2 s    until a leader may commit without a replica (in part at the same time)
    retry.backoff.max.ms                  1 s    of the clients

That is 9 s, and 15 s on a machine with other load.

`SHRINK_S` is for partitions whose leader is not struck: it leaves the replica out of the ISR, for which it may need a
new active controller, but no broker is fenced and no client retries. That is 6 s of the above, and 10 s with load.

A client detects a leader change by an error, a closed connection, or its request timeout. If the leader falls silent,
or cannot commit and does not know that it was replaced, only the timeout is left. This is the same with any broker: it
is the clients' setting (`request.timeout.ms`, 30 s by default in both). A leader that is cut off from the other brokers
still answers Metadata with itself as the leader: a client that refreshes its metadata there waits for a second timeout.

After an outage of all brokers librdkafka reconnects after up to `reconnect.backoff.max.ms`, 10 s by default.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from tests.chaos.faults import WITHOUT_BROKER_S, Fault

FAILOVER_S = 15.0
SHRINK_S = 10.0
REQUEST_TIMEOUT_S = 30.0
RECONNECT_S = 10.0


class Bounds(NamedTuple):
    """The longest time without an acknowledgement for a partition."""

    struck_s: float
    """For partitions whose leader is struck (`Fault.struck`)."""
    others_s: float


_REPLACED = Bounds(FAILOVER_S, SHRINK_S)
# The leader is silent.
_SILENT = Bounds(FAILOVER_S + REQUEST_TIMEOUT_S, SHRINK_S)
# The leader continues without being able to commit, and returns stale metadata.
_STALE = Bounds(FAILOVER_S + 2 * REQUEST_TIMEOUT_S, SHRINK_S)

BOUNDS = {
    "kill": _REPLACED,
    "wipe": _REPLACED,
    "pause": _SILENT,
    "isolate": _STALE,
    "mute": _STALE,
    "deaf": _STALE,
    "part": _STALE,
    # The broker stays in the ISR, and may become the leader of other partitions as their preferred replica.
    "cut off": Bounds(WITHOUT_BROKER_S + FAILOVER_S + REQUEST_TIMEOUT_S, WITHOUT_BROKER_S + FAILOVER_S),
    "reset": _REPLACED,
    "slow": Bounds(FAILOVER_S, FAILOVER_S),
    "roll": Bounds(FAILOVER_S, FAILOVER_S),
    "outage": Bounds(RECONNECT_S + FAILOVER_S, RECONNECT_S + FAILOVER_S),
}


class Gap(NamedTuple):
    """The longest time without an acknowledgement of one partition during one fault."""

    fault: str
    partition: str
    gap_s: float
    bound_s: float

    def __str__(self) -> str:
        bound = f"of {self.bound_s:g} s at most"
        return f"{self.gap_s:.1f} s without an acknowledgement of {self.partition}, {bound}: {self.fault}"

    @property
    def is_too_long(self) -> bool:
        return self.gap_s > self.bound_s


def gaps_of(
    reported: str, fault: Fault, struck: Set[int], leaders: Mapping[str, int], gaps_s: Mapping[str, float]
) -> list[Gap]:
    """Return the gap of each partition in a fault, given the leaders at its start."""
    bounds = BOUNDS[fault.kind]
    return [
        Gap(reported, partition, gaps_s[partition], bounds.struck_s if leader in struck else bounds.others_s)
        for partition, leader in leaders.items()
    ]
