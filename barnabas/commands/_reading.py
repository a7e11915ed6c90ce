"""The readers of `consume`: ranges of partitions, or a group member's share.

A batch is handed out in a `with` block. If the block fails (an interrupt, a closed output), the position is reset to
the start of the batch, so that a group never commits records that may not have been printed.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from barnabas._arguments import did_you_mean
from barnabas.commands._internal_topics import is_internal, not_read
from barnabas.commands._membership import is_joining, keep_joining, waits_for_others
from barnabas.commands._offsets import Range, resolve
from barnabas.commands._output import CommandError, some
from barnabas.commands._topics import compiled, is_pattern, or_hidden

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition

POLL_MS = 500
OFFSETS_MS = 10_000
"""How long partitions without an answering leader are retried."""
LEADER_MS = 1000
"""How long to wait for one leader, while the records of others wait."""
AGAIN_S = 2.0
MAX_RECORDS = 5000


class RangeReading:
    """Partitions from an offset on, each up to its own end if it has one.

    A partition is started when its leader answers; the others, `unread`, are retried meanwhile. `joining_s`,
    `uncoordinated` and `unpositioned` are as in `GroupReading`.
    """

    def __init__(
        self,
        client: KafkaConsumer,
        topics: Sequence[str],
        partitions: Sequence[int] | None,
        where: Range,
        until_end: bool,
    ) -> None:
        """Assign the partitions that can be read, and seek to their start."""
        self.unread: set[TopicPartition] = set(_partitions(client, topics, partitions))
        self._client = client
        self._where = where
        self._until_end = until_end
        self._first: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._stops: dict[TopicPartition, int] = {}
        self._open: set[TopicPartition] = set()
        self._beyond: dict[TopicPartition, int] = {}
        self._deadline_s = time.monotonic() + OFFSETS_MS / 1000
        self._again_s = 0.0
        self.joining_s = 0.0
        self.uncoordinated = False
        self.unpositioned: list[TopicPartition] = []
        self._begin()
        if self._beyond and self._beyond.keys() == self._first.keys() and not self.unread:
            ends = some([f"{one.topic}-{one.partition} ends at {end}" for one, end in sorted(self._beyond.items())])
            raise CommandError(f"{ends}, before offset {where.first.value}")

    @property
    def done(self) -> bool:
        """Whether every partition has been read up to its end; never if one has no end.

        Partitions in `unread` are given up after `OFFSETS_MS`.
        """
        ends = self._until_end or self._where.stop is not None
        return not self._open and (not self.unread or (ends and time.monotonic() >= self._deadline_s))

    def expected(self, count: int | None) -> int | None:
        """Return the number of offsets between starts and ends, at most `count`."""
        if self.unread or len(self._stops) < len(self._first):
            return count
        total = sum(max(stop - self._first[one], 0) for one, stop in self._stops.items())
        return total if count is None else min(total, count)

    @contextmanager
    def batch(self, most: int | None) -> Iterator[list[Any]]:
        """Hand out the next records before the ends; pause partitions that have reached theirs."""
        if self.unread and time.monotonic() >= self._again_s:
            _refresh(self._client)
            self._begin()
        if not self._open:
            time.sleep(POLL_MS / 1000 if self.unread else 0)
            yield []
            return
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

    def ended_early(self) -> dict[TopicPartition, int]:
        """Return the partitions that were read to the end of their time, beyond which there may have been records.

        That end is the last stable offset if the consumer is read_committed.
        """
        if not (self._until_end or (self._where.stop and self._where.stop.kind == "end")):
            return {}
        return _ended_early(self._client, {one: end for one, end in self._ends.items() if self._stops.get(one) == end})

    def give_up(self) -> None:
        """Stop retrying the `unread` partitions."""
        self._deadline_s = 0.0

    def waits_for_others(self, _: argparse.Namespace) -> bool:
        """Return False, as without a group no reading waits for members."""
        return False

    def _begin(self) -> None:
        """Assign the partitions whose leaders answer now, in addition to those already assigned."""
        begun: dict[TopicPartition, int] = {}
        for led in _by_leader(self._client, self.unread):
            with contextlib.suppress(*_unanswered()):
                starts = _query(self._client.beginning_offsets, led)
                ends = _query(self._client.end_offsets, led)
                if self._where.first.kind == "offset":
                    self._beyond |= {one: end for one, end in ends.items() if end < self._where.first.value}
                first = _clamped(resolve(self._at_time, self._where.first, starts, ends), ends)
                stops = resolve(self._at_time, self._where.stop, starts, ends) if self._where.stop else {}
                if self._until_end:
                    stops = {one: min(stops.get(one, ends[one]), ends[one]) for one in led}
                self._ends.update(ends)
                self._stops.update(stops)
                begun.update(first)
        self._again_s = time.monotonic() + AGAIN_S
        self._first.update(begun)
        self.unread -= begun.keys()
        new = {one for one in begun if one not in self._stops or begun[one] < self._stops[one]}
        if new:
            self._open |= new
            self._client.assign(sorted(self._client.assignment() | new))
            for one in new:
                self._client.seek(one, begun[one])

    def _at_time(self, partitions: list[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        found = self._client.offsets_for_times(dict.fromkeys(partitions, timestamp_ms), LEADER_MS)
        ends = _query(self._client.end_offsets, [one for one in partitions if found.get(one) is None])
        return {one: ends[one] if found.get(one) is None else found[one].offset for one in partitions}


class GroupReading:
    """The partitions that the group assigns, from their committed offsets on."""

    def __init__(self, client: KafkaConsumer, topics: Sequence[str], until_end: bool) -> None:
        """Join the group."""
        self._client = client
        self._until_end = until_end
        self._ends: dict[TopicPartition, int] = {}
        self._deadline_s: float | None = None
        self._joining_since_s: float | None = None
        self.unread: set[TopicPartition] = set()
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
        """Whether every assigned partition has been read up to the end that it had when it was assigned."""
        assigned = self._client.assignment()
        if not (self._until_end and assigned):
            return False
        now_s = time.monotonic()
        for led in _by_leader(self._client, assigned - self._ends.keys()):
            with contextlib.suppress(*_unanswered()):
                self._ends.update(_query(self._client.end_offsets, led))
        self.unread = assigned - self._ends.keys()
        if not self.unread:
            self._deadline_s = None
        elif self._deadline_s is None:
            self._deadline_s = now_s + OFFSETS_MS / 1000
        # Without a timeout, kafka-python waits until all assigned partitions have a position: up to 120 s if one has
        # no leader. `poll` fetches the positions.
        positions = {one: self._client.position(one, timeout_ms=0) for one in assigned - self.unread}
        if any(position is None or position < self._ends[one] for one, position in positions.items()):
            return False
        if self.unread and now_s < (self._deadline_s or 0.0):
            _refresh(self._client)
            return False
        return True

    def ended_early(self) -> dict[TopicPartition, int]:
        """Return the same as a `RangeReading` does."""
        return _ended_early(self._client, self._ends)

    def give_up(self) -> None:
        """Stop waiting for the unknown ends."""
        self._deadline_s = 0.0

    @property
    def joining_s(self) -> float:
        """Return for how long the group has been rebalancing; 0 if it is not."""
        return 0.0 if self._joining_since_s is None else time.monotonic() - self._joining_since_s

    @property
    def unpositioned(self) -> list[TopicPartition]:
        """Return the assigned partitions whose committed offset has not been received."""
        return sorted(one for one in self._client.assignment() if self._client.position(one, timeout_ms=0) is None)

    def waits_for_others(self, options: argparse.Namespace) -> bool:
        """Return whether the rebalance waits for other members, or may do so."""
        return waits_for_others(self._client, options)

    @property
    def uncoordinated(self) -> bool:
        """Return whether the group's coordinator is unknown."""
        return bool(self._client._coordinator.coordinator_unknown())

    def expected(self, count: int | None) -> int | None:
        """Return `count`: the share of the other members is unknown."""
        return count

    @contextmanager
    def batch(self, most: int | None) -> Iterator[list[Any]]:
        """Hand out the next records; they count as read only if the block succeeds."""
        keep_joining(self._client)
        polled = self._client.poll(timeout_ms=POLL_MS, max_records=min(most or MAX_RECORDS, MAX_RECORDS))
        if not is_joining(self._client):
            self._joining_since_s = None
        elif self._joining_since_s is None:
            self._joining_since_s = time.monotonic() - POLL_MS / 1000
        try:
            yield [record for records in polled.values() for record in records]
        except BaseException:
            for one, records in polled.items():
                if one in self._client.assignment():
                    self._client.seek(one, records[0].offset)
            raise


Reading = RangeReading | GroupReading
"""Records to read, batch by batch, until `done`."""


def _ended_early(client: KafkaConsumer, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return those of the `ends` that are not the high watermark of the latest fetch; all that were not fetched."""
    assigned = client.assignment()
    marks = {one: client.highwater(one) if one in assigned else None for one in ends}
    return {one: end for one, end in ends.items() if (mark := marks[one]) is None or mark > end}


def _clamped(offsets: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {one: min(offset, ends[one]) for one, offset in offsets.items()}


def _unanswered() -> tuple[type[Exception], ...]:
    """Return the exceptions raised for a partition without a leader, or whose leader does not answer."""
    from kafka.errors import KafkaError

    return (KafkaError, KeyError)  # kafka-python 3.0.12 raises KeyError for a partition without a leader


def _topics(client: KafkaConsumer) -> set[str]:
    """Return the existing topics; retry, as kafka-python sends the request to one broker, which may be dead."""
    from kafka.errors import KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError

    deadline_s = time.monotonic() + OFFSETS_MS / 1000
    while True:
        try:
            return set(client.topics())
        except (KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError):
            if time.monotonic() >= deadline_s:
                raise
            time.sleep(0.1)


def _refresh(client: KafkaConsumer) -> None:
    """Update the metadata, if a broker answers."""
    with contextlib.suppress(*_unanswered()):
        client.topics()


def _by_leader(client: KafkaConsumer, partitions: Iterable[TopicPartition]) -> list[list[TopicPartition]]:
    """Return the partitions that have a leader, grouped by leader."""
    led: dict[int, list[TopicPartition]] = {}
    for one in sorted(partitions):
        leader = client._cluster.leader_for_partition(one)
        if leader is not None and leader >= 0:
            led.setdefault(leader, []).append(one)
    return list(led.values())


def _query(query: Callable[..., Any], partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    return dict(query(partitions, LEADER_MS))


def _partitions(client: KafkaConsumer, topics: Sequence[str], wanted: Sequence[int] | None) -> list[TopicPartition]:
    """Return the requested partitions; CommandError if one does not exist."""
    from kafka import TopicPartition

    known = _topics(client)
    names = dict.fromkeys(name for name in topics if not is_pattern(name))
    for pattern in (compiled(name) for name in topics if is_pattern(name)):
        names.update(dict.fromkeys(sorted(name for name in known if pattern.match(name))))
    if not names:
        _refuse_internal(client._cluster.internal_topics, topics)
        raise CommandError(f"no topic matches {' or '.join(topics)}")
    chosen = []
    for name in names:
        if is_internal(name):
            raise CommandError(not_read(name))
        partitions = client.partitions_for_topic(name) if name in known else None
        if not partitions:
            raise CommandError(f"there is no topic {name}{or_hidden(client)}{did_you_mean(name, known)}")
        for index in wanted or ():
            if index not in partitions:
                raise CommandError(f"{name} has partitions 0 to {max(partitions)}, no {index}")
        chosen += [TopicPartition(name, index) for index in sorted(wanted or partitions)]
    return chosen


def _refuse_internal(internal: Collection[str], patterns: Sequence[str]) -> None:
    """Raise CommandError if one of the patterns matches an internal topic."""
    for name in sorted(internal):
        if any(compiled(pattern).match(name) for pattern in patterns):
            raise CommandError(f"no topic matches {' or '.join(patterns)} but {not_read(name)}")
