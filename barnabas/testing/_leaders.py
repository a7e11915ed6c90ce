"""The leaders of a topic's partitions, as requests go to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TypeVar

from barnabas.testing._control import MISDIRECTED, ControlRefusal, Unreachable, path_of
from barnabas.testing._nodes import Nodes, retry_pauses_s
from barnabas.testing.broker import Broker
from barnabas.testing.errors import ClusterError

T = TypeVar("T")


class NoLeader(ClusterError):  # noqa: N818 - the state of a partition
    """A partition has no leader that runs, for longer than the request may take."""


class Leaders:
    """The brokers that lead the partitions of a topic, read again after a request went to the wrong one."""

    def __init__(self, nodes: Nodes, topic: str) -> None:
        """Read nothing yet."""
        self._nodes = nodes
        self._topic = topic
        self._path = path_of("topics", topic)
        self._known: dict[int, int] = {}

    def read(self) -> dict[int, int]:
        """Return the id of the leader of each partition, -1 where there is none."""
        partitions = self._nodes.call("GET", self._path)["partitions"]
        self._known = {one["partition"]: one["leader"] for one in partitions}
        return self._known

    def partitions(self) -> set[int]:
        """Return the partitions, as last read."""
        return set(self._known or self.read())

    def by_broker(self, partitions: Collection[int]) -> list[tuple[Broker, list[int]]]:
        """Return the brokers that lead these partitions, each with those it leads.

        A partition without a leader that runs is given to any broker, which refuses requests for it.
        """
        known = self._known or self.read()
        serving = {broker.node_id: broker for broker in self._nodes.serving}
        found: dict[int, list[int]] = {}
        for partition in sorted(partitions):
            leader = known.get(partition, -1)
            found.setdefault(leader if leader in serving else next(iter(serving)), []).append(partition)
        return [(serving[node_id], led) for node_id, led in found.items()]

    def until_led(self, request: Callable[[], T | None], deadline: float) -> T:
        """Return what `request` returns, called again while it goes to the wrong broker, or returns None.

        After `deadline` (`time.monotonic`), `NoLeader` is raised.
        """
        __tracebackhide__ = True
        pauses_s = retry_pauses_s()
        while True:
            try:
                found = request()
                if found is not None:
                    return found
            except ControlRefusal as refusal:
                if refusal.status != MISDIRECTED:
                    raise
            except Unreachable:
                pass
            if time.monotonic() > deadline:
                states = "; ".join(broker.describe() for broker in self._nodes.brokers)
                raise NoLeader(f"topic {self._topic} lacks leaders: {self._known}, by partition; {states}")
            self._known = {}
            time.sleep(next(pauses_s))
