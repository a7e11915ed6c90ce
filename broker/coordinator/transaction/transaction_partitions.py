"""The partitions of a transaction, grouped by topic.

Each transition is a record with all partitions, so additions and encoding must be cheap: an addition copies the dict of
topics and the topics that it changes, and each topic caches its encoding. Topics are in the order of their first
addition; no order depends on the hashes of strings.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Set

from protocol.primitives import put_uvarint
from storage.checkpoint import TopicPartition

MAX_PARTITIONS = 10_000
"""The most partitions of a transaction: each addition is written with all of them."""
MAX_BYTES = 512 * 1024
"""The most bytes of their encoding: a record must stay below the default `max.message.bytes`."""

_FLEXIBLE_VERSION = 1


class _Topic:
    """The partitions of one topic; immutable."""

    __slots__ = ("_encoded", "_version", "indexes", "name")

    def __init__(self, name: str, indexes: frozenset[int]) -> None:
        self.name = name
        self.indexes = indexes
        self._version = -1
        self._encoded = b""

    def encode(self, version: int) -> bytes:
        """Return the topic's element of `transaction_partitions` in a record's value of `version`."""
        if version != self._version:
            name, count = self.name.encode(), len(self.indexes)
            array = struct.pack(f">{count}i", *self.indexes)
            if version >= _FLEXIBLE_VERSION:
                self._encoded = _uvarint(len(name) + 1) + name + _uvarint(count + 1) + array + b"\0"
            else:
                self._encoded = len(name).to_bytes(2, "big") + name + count.to_bytes(4, "big") + array
            self._version = version
        return self._encoded


class TransactionPartitions(Set[TopicPartition]):
    """An immutable set of partitions."""

    __slots__ = ("_count", "_topics")

    def __init__(self, topics: Mapping[str, _Topic], count: int) -> None:
        self._topics = topics
        self._count = count

    @classmethod
    def of(cls, partitions: Iterable[TopicPartition]) -> TransactionPartitions:
        """Return the set of these partitions."""
        by_topic: dict[str, list[int]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, []).append(index)
        topics = {name: _Topic(name, frozenset(indexes)) for name, indexes in by_topic.items()}
        return cls(topics, sum(len(topic.indexes) for topic in topics.values()))

    def with_all(self, added: TransactionPartitions) -> TransactionPartitions:
        """Return the union with `added`."""
        topics = dict(self._topics)
        count = self._count
        for name, more in added._topics.items():
            topic = topics.get(name)
            if topic is None:
                topics[name] = more
                count += len(more.indexes)
            elif not more.indexes <= topic.indexes:
                merged = topics[name] = _Topic(name, topic.indexes | more.indexes)
                count += len(merged.indexes) - len(topic.indexes)
        return TransactionPartitions(topics, count)

    def by_topic(self) -> Iterator[tuple[str, list[int]]]:
        """Yield each topic with its partitions in order."""
        return ((name, sorted(topic.indexes)) for name, topic in self._topics.items())

    def encode(self, version: int) -> bytes:
        """Return the array `transaction_partitions` of a record's value of `version`."""
        count = len(self._topics)
        prefix = _uvarint(count + 1) if version >= _FLEXIBLE_VERSION else count.to_bytes(4, "big")
        return prefix + b"".join([topic.encode(version) for topic in self._topics.values()])

    def is_too_large(self, version: int) -> bool:
        """Return whether the set exceeds `MAX_PARTITIONS`, or `MAX_BYTES` in a record's value of `version`."""
        return self._count > MAX_PARTITIONS or len(self.encode(version)) > MAX_BYTES

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[TopicPartition]:
        return ((name, index) for name, topic in self._topics.items() for index in topic.indexes)

    def __contains__(self, partition: object) -> bool:
        if not isinstance(partition, tuple):
            return False
        name, index = partition
        topic = self._topics.get(name)
        return topic is not None and index in topic.indexes

    def __le__(self, other: Set[object]) -> bool:
        if not isinstance(other, TransactionPartitions):
            return super().__le__(other)
        return all(
            name in other._topics and topic.indexes <= other._topics[name].indexes
            for name, topic in self._topics.items()
        )


def _uvarint(value: int) -> bytes:
    encoded = bytearray()
    put_uvarint(encoded, value)
    return bytes(encoded)
