"""A topic of a test: write records, read them, wait for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from barnabas.testing._arguments import number, whole_number
from barnabas.testing._control import path_of
from barnabas.testing._leaders import NoLeader
from barnabas.testing._nodes import Nodes
from barnabas.testing._record_log import RecordLog
from barnabas.testing.broker import Broker
from barnabas.testing.errors import ClusterError, WaitTimeout
from barnabas.testing.records import NewRecord, Position, TopicRecord, fields_of, listing

WAIT_S = 10.0
"""The default time-out of all waits, in seconds."""


class Topic:
    """A topic of a cluster. Faults do not apply to its methods, and transcripts do not have them."""

    def __init__(self, nodes: Nodes, name: str) -> None:
        """Name a topic, which may not exist yet."""
        self.name = name
        self._nodes = nodes
        self._log = RecordLog(nodes, name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Topic {self.name}>"

    def describe(self) -> dict[str, Any]:
        """Return the topic's id and its partitions: leader, replicas, ISR; of one broker's replicas the offsets."""
        return self._nodes.call("GET", path_of("topics", self.name))

    @property
    def leaders(self) -> dict[int, int]:
        """The id of the broker that leads each partition; -1 where none does."""
        return dict(self._log.leaders.read())

    def leader(self, partition: int = 0) -> Broker:
        """Return the broker that leads a partition now; ClusterError if none does, or there is no such partition."""
        leaders = self.leaders
        if partition not in leaders:
            known = ", ".join(map(str, sorted(leaders)))
            raise ClusterError(f"topic {self.name} has no partition {partition!r}; it has: {known}")
        if leaders[partition] < 0:
            states = "; ".join(broker.describe() for broker in self._nodes.brokers)
            raise ClusterError(f"{self.name}-{partition} has no leader at present; {states}")
        return self._nodes.by_id(leaders[partition])

    def delete(self) -> None:
        """Delete the topic."""
        self._nodes.call("DELETE", path_of("topics", self.name))

    def wait_exists(self, partitions: int = 1, timeout: float = WAIT_S) -> None:
        """Wait until the topic, with so many partitions, is usable on every broker that serves."""
        __tracebackhide__ = True
        self._nodes.wait_at_all(path_of("wait", "topic"), {"topic": self.name, "partitions": partitions}, timeout)

    def move_leader(self, broker: Broker | int, partition: int = 0, timeout: float = WAIT_S) -> None:
        """Have another replica in sync lead a partition; return when every broker that serves knows it.

        ClusterError if `broker` has no replica that is in sync.
        """
        __tracebackhide__ = True
        leader = broker if isinstance(broker, int) else broker.node_id
        body = {"topic": self.name, "partition": partition, "leader": leader}
        self._nodes.call("POST", path_of("leaders"), body, timeout)
        wait = {"topic": self.name, "leaders": {str(partition): leader}}
        self._nodes.wait_at_all(path_of("wait", "topic"), wait, timeout)

    def produce(self, records: Iterable[NewRecord]) -> list[Position]:
        """Append records, in order within each partition; return their places, in the given order.

        A record without a partition gets that of its key, as from Kafka's clients, or the next one in turn.
        ClusterError unless all in-sync replicas have stored them. TypeError for one text in place of a list.
        """
        if isinstance(records, str | bytes):
            raise TypeError(f"produce takes a list of records: produce([{records!r}])")
        given = [fields_of(record) for record in records]
        return self._log.append(given) if given else []

    def records(self, isolation: str = "read_committed") -> list[TopicRecord]:
        """Return all committed records, by partition and offset.

        With the isolation "read_uncommitted", those of open and aborted transactions too.
        """
        return self._log.read({}, isolation)[0]

    def expect(
        self,
        count: int,
        timeout: float = WAIT_S,
        where: Callable[[TopicRecord], bool] | None = None,
        isolation: str = "read_committed",
    ) -> list[TopicRecord]:
        """Wait until the topic has `count` records and return them; the topic itself may appear meanwhile.

        With `where`, only records for which it is true count. WaitTimeout with what the topic has instead if there are
        fewer after `timeout` seconds, or already more.
        """
        __tracebackhide__ = True
        deadline = time.monotonic() + number("timeout", timeout)
        whole_number("count", count)
        self.wait_exists(timeout=timeout)
        found: list[TopicRecord] = []
        following: dict[int, int] = {}
        obstacle = ""
        try:
            while True:
                new, following = self._log.read(following, isolation, deadline - time.monotonic())
                found += new if where is None else filter(where, new)
                left_s = deadline - time.monotonic()
                if len(found) >= count or not self._log.wait_for_more(following, isolation, left_s):
                    break
        except NoLeader as error:
            obstacle = f"; {error}"
        if len(found) != count:
            within = f" within {timeout:g} s" if len(found) < count else ""
            which = "" if where is None else " that fulfil the condition"
            raise WaitTimeout(
                f"topic {self.name}: {count} records{which} expected{within}, found {len(found)}: {listing(found)}; "
                f"next offsets by partition: {dict(sorted(following.items()))}{obstacle}"
            )
        return sorted(found)
