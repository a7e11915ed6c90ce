"""What `consume` reads, and when it is through: ranges of partitions, or a group's share.

A batch is handed out in a `with` block. If the block does not end well (an interrupt, a reader that has gone), the
position goes back to the batch's begin, so that a group never commits what may not have been printed.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.commands._client import keep_joining
from barnabas.commands._offsets import Range, resolve
from barnabas.commands._output import CommandError
from barnabas.commands._topics import compiled, is_pattern

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from kafka import KafkaConsumer, TopicPartition

POLL_MS = 500
OFFSETS_MS = 10_000
MAX_RECORDS = 5000


class Reading(Protocol):
    """Records to be read, batch by batch, until `done`."""

    @property
    def done(self) -> bool:
        """Whether everything that was asked for has been handed out."""

    def expected(self, count: int | None) -> int | None:
        """Return how many records there will be, if that is known; `count` is the most that are wanted."""

    def batch(self, most: int | None) -> AbstractContextManager[list[Any]]:
        """Hand out the next records, at most so many; none if there are none for a while."""


class RangeReading:
    """Partitions from an offset on, each up to its own end if it has one."""

    def __init__(
        self,
        client: KafkaConsumer,
        topics: Sequence[str],
        partitions: Sequence[int] | None,
        where: Range,
        until_end: bool,
    ) -> None:
        """Assign the partitions and go to where they begin."""
        self._client = client
        chosen = _partitions(client, topics, partitions)
        starts, ends = _offsets(client, client.beginning_offsets, chosen), _offsets(client, client.end_offsets, chosen)
        self._first = _clamped(resolve(self._at_time, where.first, starts, ends), ends)
        self._stops: dict[TopicPartition, int] = {}
        if where.stop:
            self._stops = resolve(self._at_time, where.stop, starts, ends)
        if until_end:
            self._stops = {one: min(self._stops.get(one, ends[one]), ends[one]) for one in chosen}
        self._open = {one for one in chosen if one not in self._stops or self._first[one] < self._stops[one]}
        client.assign(sorted(self._open))
        for one in self._open:
            client.seek(one, self._first[one])

    @property
    def done(self) -> bool:
        """Whether every partition has been read up to its end; never, if one has no end."""
        return not self._open

    def expected(self, count: int | None) -> int | None:
        """Return the number of offsets between the beginnings and the ends."""
        if len(self._stops) < len(self._first):
            return count
        total = sum(max(stop - self._first[one], 0) for one, stop in self._stops.items())
        return total if count is None else min(total, count)

    @contextmanager
    def batch(self, most: int | None) -> Iterator[list[Any]]:
        """Hand out the next records before the ends, and stop reading partitions that have reached theirs."""
        polled = self._client.poll(timeout_ms=POLL_MS, max_records=min(most or MAX_RECORDS, MAX_RECORDS))
        yield [
            record
            for one, records in polled.items()
            for record in records
            if one not in self._stops or record.offset < self._stops[one]
        ]
        through = {one for one in self._open & set(self._stops) if self._client.position(one) >= self._stops[one]}
        if through:
            self._open -= through
            self._client.pause(*through)

    def _at_time(self, partitions: list[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        found = self._client.offsets_for_times(dict.fromkeys(partitions, timestamp_ms))
        ends = self._client.end_offsets([one for one in partitions if found.get(one) is None])
        return {one: ends[one] if found.get(one) is None else found[one].offset for one in partitions}


class GroupReading:
    """The partitions that a group assigns, from what it has committed on."""

    def __init__(self, client: KafkaConsumer, topics: Sequence[str], until_end: bool) -> None:
        """Join the group."""
        self._client = client
        self._until_end = until_end
        self._ends: dict[TopicPartition, int] = {}
        patterns = [name for name in topics if is_pattern(name)]
        if patterns:
            whole = "|".join([*patterns, *(f"^{re.escape(name)}$" for name in topics if not is_pattern(name))])
            compiled(whole)
            client.subscribe(pattern=whole)
        else:
            _partitions(client, topics, None)
            client.subscribe(topics=list(topics))

    @property
    def done(self) -> bool:
        """Whether every partition that is assigned has been read up to the end that it had then."""
        assigned = self._client.assignment()
        if not (self._until_end and assigned):
            return False
        new = [one for one in assigned if one not in self._ends]
        if new:
            self._ends.update(_offsets(self._client, self._client.end_offsets, new))
        return all(self._client.position(one) >= self._ends[one] for one in assigned)

    def expected(self, count: int | None) -> int | None:
        """Return the count: what others of the group read is not known."""
        return count

    @contextmanager
    def batch(self, most: int | None) -> Iterator[list[Any]]:
        """Hand out the next records; only once the block has ended well do they count as read."""
        keep_joining(self._client)
        polled = self._client.poll(timeout_ms=POLL_MS, max_records=min(most or MAX_RECORDS, MAX_RECORDS))
        try:
            yield [record for records in polled.values() for record in records]
        except BaseException:
            for one, records in polled.items():
                if one in self._client.assignment():
                    self._client.seek(one, records[0].offset)
            raise


def _clamped(offsets: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {one: min(offset, ends[one]) for one, offset in offsets.items()}


def _topics(client: KafkaConsumer) -> set[str]:
    """Return the topics that there are; kafka-python asks one broker, which may be one that has died."""
    from kafka.errors import KafkaConnectionError

    for _ in client._cluster.brokers():
        with contextlib.suppress(KafkaConnectionError):
            return set(client.topics())
    return set(client.topics())


def _offsets(client: KafkaConsumer, ask: Callable[..., Any], partitions: list[TopicPartition]) -> dict[Any, int]:
    """Ask for offsets until each partition has a leader; KafkaTimeoutError if one has none for too long."""
    from kafka.errors import KafkaTimeoutError

    deadline = time.monotonic() + OFFSETS_MS / 1000
    while True:
        try:
            return dict(ask(partitions, OFFSETS_MS))
        except KeyError as error:  # kafka-python 3.0.12 leaves out a partition without leader, and then misses it
            if time.monotonic() > deadline:
                raise KafkaTimeoutError("some partitions have no leader") from error
            _topics(client)


def _partitions(client: KafkaConsumer, topics: Sequence[str], wanted: Sequence[int] | None) -> list[TopicPartition]:
    """Return the partitions that were asked for, all of which exist."""
    from kafka import TopicPartition

    known = _topics(client)
    names = dict.fromkeys(name for name in topics if not is_pattern(name))
    for pattern in (compiled(name) for name in topics if is_pattern(name)):
        names.update(dict.fromkeys(sorted(name for name in known if pattern.match(name))))
    if not names:
        raise CommandError(f"no topic matches {' or '.join(topics)}")
    chosen = []
    for name in names:
        partitions = client.partitions_for_topic(name) if name in known else None
        if not partitions:
            raise CommandError(f"there is no topic {name}")
        for index in wanted or ():
            if index not in partitions:
                raise CommandError(f"{name} has partitions 0 to {max(partitions)}, no {index}")
        chosen += [TopicPartition(name, index) for index in sorted(wanted or partitions)]
    return chosen
