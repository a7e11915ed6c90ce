"""Topics read from start to end by Apache Kafka's consumer, and the same records read by us from a log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from protocol.record_batch import iter_batches, iter_records
from tests.oracles.apache_kafka import JVM, kafka_classpath
from tests.setups import run

READ_ALL = Path(__file__).parent / "java" / "ReadAll.java"

Headers = tuple[tuple[str, bytes | None], ...]


class Read(NamedTuple):
    """A record as a consumer returns it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class ReadBack(NamedTuple):
    """The records of some topics: all, and those that are committed."""

    everything: dict[str, list[Read]]
    committed: dict[str, list[Read]]


def read_back(bootstrap: str, topics: Iterable[str]) -> ReadBack:
    """Read the topics, of one partition each, with the Java consumer at both isolation levels."""
    wanted = list(topics)
    found = ReadBack({topic: [] for topic in wanted}, {topic: [] for topic in wanted})
    for line in run(*JVM, "-cp", kafka_classpath(), READ_ALL, bootstrap, *wanted).splitlines():
        isolation, topic, offset, timestamp, key, value, *headers = line.split(" ")
        pairs = tuple((name, _bytes(content)) for name, content in zip(headers[::2], headers[1::2], strict=True))
        read = found.committed if isolation == "read_committed" else found.everything
        read[topic].append(Read(int(offset), int(timestamp), _bytes(key), _bytes(value), pairs))
    return found


def _bytes(text: str) -> bytes | None:
    return None if text == "null" else bytes.fromhex(text[1:])


def records_in(batches: bytes, *, start: int = 0) -> Iterator[Read]:
    """Return what a read_uncommitted consumer reads from these batches, from offset `start` on."""
    for at, header in iter_batches(batches):
        if not header.is_control:
            for record in iter_records(batches[at : at + header.size_bytes]):
                if record.offset >= start:
                    headers = tuple((name.decode(), content) for name, content in record.headers)
                    yield Read(record.offset, record.timestamp, record.key, record.value, headers)
