"""Per-topic counters of this broker's partitions (Kafka: `BrokerTopicMetrics`).

The hot path increments the counters of its partition's topic; sums over topics are computed when read. A deleted topic
is no longer listed, but stays in the sums.
"""

from __future__ import annotations


class BrokerTopicMetrics:
    """The counters of one topic; they only grow."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.produces = 0
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0

    def add(self, other: BrokerTopicMetrics) -> None:
        """Add the counters of `other`."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class TopicStats:
    """The counters of all topics."""

    def __init__(self) -> None:
        self.topics: dict[str, BrokerTopicMetrics] = {}
        self._deleted = BrokerTopicMetrics()

    def of(self, topic: str) -> BrokerTopicMetrics:
        """Return the counters of `topic`, which are created if needed."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = BrokerTopicMetrics()
        return found

    def forget(self, topic: str) -> None:
        """Remove `topic`; its counts stay in the totals."""
        deleted = self.topics.pop(topic, None)
        if deleted is not None:
            self._deleted.add(deleted)

    def total(self) -> BrokerTopicMetrics:
        """Return the sums over all topics, deleted ones included."""
        total = BrokerTopicMetrics()
        total.add(self._deleted)
        for metrics in self.topics.values():
            total.add(metrics)
        return total
