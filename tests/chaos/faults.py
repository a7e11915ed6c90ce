"""The faults of a cluster, one after the other: an endless plan from a seed, and the injection of each kind.

Every fault except the last kind leaves a majority of the controllers and one replica in sync intact: it strikes one
broker or one link at a time, and the next waits until all replicas are in sync and all partitions are written to again.
A fault lasts until the rest of the cluster has made progress without the struck part, and is then healed.

    kill         SIGKILL; the broker restarts once it is fenced, or at once
    wipe         likewise, and it restarts with an empty disk
    pause        SIGSTOP until the broker is fenced, which takes longer than its session
    isolate      no data passes between a broker and the others; clients reach it
    mute, deaf   data does not pass from a broker to the others, or from the others to it
    part         data does not pass from one broker to one other
    cut off      clients do not reach a broker
    slow         all links between brokers are delayed
    reset        a broker's connections break, and may be opened again
    roll         rolling restart with clean shutdowns
    outage       SIGKILL of all brokers at once, restarted in any order; their machines stay up

If a fault strikes one broker, the plan names its role: the leader of a partition, the coordinator of transactions or of
groups, the active controller, or an id. So a seed always gives the same plan, although elections depend on time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from tests.chaos.cluster import DEADLINE_S, IDS, STATE_PARTITIONS, Cluster, ClusterError, Description
from tests.chaos.network import CLIENTS, Link, Network
from tests.chaos.workloads import PARTITIONS, Progress, name_of

# Number of records that must be acknowledged during a fault, and again after it.
GOING_ON = 500
GOING_ON_S = 90.0  # longer than any bound in `gaps.py`
SLOW_S = 0.05
WITHOUT_BROKER_S = 3.0


class Fault(NamedTuple):
    """One entry of a plan."""

    kind: str
    role: str
    """The broker: `leader`, `coordinator`, `controller`, or `any`."""
    number: int
    """The partition (for `leader` and `coordinator`), or the broker id."""
    way: int
    """One of the two variants of the kind, 0 or 1."""

    def victim(self, found: Description) -> int:
        """Return the broker that the fault strikes now."""
        if self.role == "leader":
            return found.partitions[name_of(self.number % PARTITIONS)].leader
        if self.role == "coordinator":
            for topic in ("__transaction_state", "__consumer_offsets"):
                if state := found.partitions.get(name_of(self.number % STATE_PARTITIONS, topic)):
                    return state.leader
        return found.controller if self.role == "controller" else IDS[self.number % len(IDS)]

    def struck(self, victim: int) -> set[int]:
        """Return the brokers whose partitions may have to change their leader, or to wait for the end of the fault."""
        if self.kind in OF_ALL:
            return set(IDS)
        return {victim, self.other(victim)} if self.kind == "part" else {victim}

    def other(self, victim: int) -> int:
        """Return the broker at the other end of a link."""
        return sorted(set(IDS) - {victim})[self.number % 2]


class FaultInjector:
    """Injects faults into a cluster under load."""

    def __init__(self, cluster: Cluster, network: Network, progress: Progress) -> None:
        self._cluster = cluster
        self._network = network
        self._progress = progress

    def deal(self, fault: Fault, victim: int) -> None:
        """Inject the fault, wait until the others make progress, heal it, and wait until the cluster is whole again."""
        KINDS[fault.kind](self, fault, victim)
        self._cluster.wait_until_whole()
        self._go_on(f"after {fault.kind}")
        self._wait_for_progress_everywhere(f"after {fault.kind}")
        self._wait_for_transactions(f"after {fault.kind}")

    def _go_on(self, when: str) -> None:
        if not self._acknowledge(GOING_ON, GOING_ON_S):
            raise ClusterError(f"less than {GOING_ON} records acknowledged {when}, within {GOING_ON_S:g} s")

    def _wait_for_progress_everywhere(self, when: str) -> None:
        """Wait for every partition, so that a gap belongs to the fault in which it began."""
        acknowledged = self._progress.acknowledged_of
        before = acknowledged.copy()

        def missing() -> list[str]:
            return [partition for partition in before if acknowledged[partition] == before[partition]]

        if not self._progress.wait_for(lambda: not missing(), DEADLINE_S):
            raise ClusterError(f"nothing acknowledged by {missing()} {when}, within {DEADLINE_S:g} s")

    def _wait_for_transactions(self, when: str) -> None:
        """Wait until every transactional client has committed again."""
        committed = self._progress.committed
        before = committed.copy()

        def missing() -> list[str]:
            return [client for client in before if committed[client] == before[client]]

        if not self._progress.wait_for(lambda: not missing(), DEADLINE_S):
            raise ClusterError(f"nothing committed by {missing()} {when}, within {DEADLINE_S:g} s")

    def _acknowledge(self, more: int, timeout_s: float) -> bool:
        aim = len(self._progress.acknowledged) + more
        return self._progress.wait_for(lambda: len(self._progress.acknowledged) >= aim, timeout_s)

    def _wait_until_out_of_sync(self, victim: int) -> None:
        self._cluster.wait_for(lambda found: found.is_out_of_sync(victim), f"broker {victim} in no ISR")

    def _kill(self, fault: Fault, victim: int) -> None:
        node = self._cluster.nodes[victim]
        node.kill()
        if fault.kind == "wipe":
            node.wipe()
        if fault.way:
            self._wait_until_out_of_sync(victim)
            self._go_on("without a broker")
        node.start()

    def _pause(self, _: Fault, victim: int) -> None:
        node = self._cluster.nodes[victim]
        node.pause()
        try:
            self._wait_until_out_of_sync(victim)
            self._go_on("without a broker")
        finally:
            node.resume()

    def _isolate(self, fault: Fault, victim: int) -> None:
        others = set(IDS) - {victim}
        change = Link.cut if fault.way else Link.stall
        if fault.kind != "deaf":
            self._network.change({victim}, others, change)
        if fault.kind != "mute":
            self._network.change(others, {victim}, change)
        self._hold("while a broker is " + {"mute": "mute", "deaf": "deaf"}.get(fault.kind, "isolated"), victim)

    def _part(self, fault: Fault, victim: int) -> None:
        self._network.change({victim}, {fault.other(victim)}, Link.cut if fault.way else Link.stall)
        self._hold("while a link is cut")

    def _cut_off(self, fault: Fault, victim: int) -> None:
        change = Link.cut if fault.way else Link.stall
        self._network.change({CLIENTS}, {victim}, change)
        self._network.change({victim}, {CLIENTS}, change)
        try:  # none can make progress if this broker leads everything, and it may
            self._acknowledge(GOING_ON, WITHOUT_BROKER_S)
        finally:
            self._network.heal()

    def _slow(self, _: Fault, __: int) -> None:
        self._network.change(set(IDS), set(IDS), lambda link: setattr(link, "delay_s", SLOW_S))
        self._hold("while the network is slow")

    def _reset(self, _: Fault, victim: int) -> None:
        everybody = {CLIENTS, *IDS}
        self._network.change({victim}, everybody, Link.reset)
        self._network.change(everybody, {victim}, Link.reset)

    def _hold(self, when: str, out_of_sync: int | None = None) -> None:
        try:
            if out_of_sync is not None:
                self._wait_until_out_of_sync(out_of_sync)
            self._go_on(when)
        finally:
            self._network.heal()

    def _roll(self, _: Fault, __: int) -> None:
        for node in self._cluster.nodes.values():
            status = node.stop()
            if status:
                raise ClusterError(f"broker {node.id} stopped with status {status}")
            node.start()
            self._cluster.wait_until_whole()

    def _outage(self, fault: Fault, victim: int) -> None:
        nodes = self._cluster.nodes
        for node in nodes.values():
            node.kill()
        for id_ in sorted(IDS, key=lambda id_: id_ == victim, reverse=bool(fault.way)):
            nodes[id_].start()


KINDS: dict[str, Callable[[FaultInjector, Fault, int], None]] = {
    "kill": FaultInjector._kill,
    "wipe": FaultInjector._kill,
    "pause": FaultInjector._pause,
    "isolate": FaultInjector._isolate,
    "mute": FaultInjector._isolate,
    "deaf": FaultInjector._isolate,
    "part": FaultInjector._part,
    "cut off": FaultInjector._cut_off,
    "slow": FaultInjector._slow,
    "reset": FaultInjector._reset,
    "roll": FaultInjector._roll,
    "outage": FaultInjector._outage,
}
SILENCING = frozenset({"isolate", "mute", "deaf"})
"""Faults of a broker that serves clients, and does not know what the others do, or cannot tell them."""
OF_ALL = frozenset({"slow", "roll", "outage"})
# Twice as often: the most frequent faults.
DECK = (*KINDS, "kill", "pause", "isolate")


def plan(seed: int) -> Iterator[Fault]:
    """Yield faults without end; every kind comes once before any is repeated beyond its share."""
    random = Random(seed)
    while True:
        for kind in random.sample(DECK, len(DECK)):
            role = random.choice(("leader", "coordinator", "controller", "any"))
            yield Fault(kind, role, random.randrange(PARTITIONS), random.randrange(2))
