"""How long no client may be acknowledged anything during a fault: a bound for each kind, and why.

`FAILOVER_S` covers every fault after which clients reach another leader through the connections that they have. The
worst is a leader that is the active controller too and hangs:

    controller.quorum.fetch.timeout.ms    2 s    until the other voters miss it
    elections                             2 s    two rounds of controller.quorum.election.timeout.ms
    broker.session.timeout.ms             2 s    which a new active controller gives every broker
    replica.lag.time.max.ms               2 s    until a leader may commit without a replica (in part at the same time)
    retry.backoff.max.ms                  1 s    of the clients

That is 9 s, and 15 s on a machine that does other things besides.

A client learns that a leader has changed from an error, a closed connection, or its request time-out. Where a broker
falls silent, or cannot commit and does not know that it was replaced, only the time-out is left. Partitions of other
leaders go on meanwhile, so this shows as a gap only where one broker led every partition. It is the same with any
broker: the clients decide it (`request.timeout.ms`, 30 s by default in both).

After an outage of all brokers librdkafka tries again after up to `reconnect.backoff.max.ms`, 10 s by default.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.chaos.faults import WITHOUT_BROKER_S, Fault

FAILOVER_S = 15.0
REQUEST_TIMEOUT_S = 30.0
RECONNECT_S = 10.0

BOUNDS_S = {
    "kill": FAILOVER_S,
    "wipe": FAILOVER_S,
    "pause": FAILOVER_S,
    "isolate": FAILOVER_S,
    "mute": FAILOVER_S,
    "deaf": FAILOVER_S,
    "part": FAILOVER_S,
    "cut off": WITHOUT_BROKER_S + FAILOVER_S,
    "slow": FAILOVER_S,
    "reset": FAILOVER_S,
    "roll": FAILOVER_S,
    "outage": RECONNECT_S + FAILOVER_S,
}
# The victim is silent, or goes on as a leader that cannot commit.
SILENT_KINDS = frozenset({"pause", "isolate", "mute", "deaf", "part", "cut off"})


class Gap(NamedTuple):
    """The longest time without an acknowledgement during one fault."""

    fault: str
    gap_s: float
    bound_s: float

    def __str__(self) -> str:
        return f"{self.gap_s:.1f} s without an acknowledgement, of {self.bound_s:g} s at most: {self.fault}"

    @property
    def is_too_long(self) -> bool:
        return self.gap_s > self.bound_s


def bound_s(fault: Fault, *, leads_all: bool) -> float:
    """Return how long the gap may be if the victim led every partition of the clients' topic, or not."""
    return BOUNDS_S[fault.kind] + (REQUEST_TIMEOUT_S if leads_all and fault.kind in SILENT_KINDS else 0)
