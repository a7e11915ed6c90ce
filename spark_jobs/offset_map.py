"""Which offset of a copied partition stands for an offset of the partition that it was copied from.

A map has runs: records that follow each other in both partitions, with the offsets of the first in each. Between runs
the source may have gaps (compaction, markers of transactions), and the target the markers of the transactions that
copied the records.

A run is kept until so many newer ones have come: NEWEST times the largest power of two that divides its number. Of n
runs about NEWEST * log2(n / NEWEST) are kept, all of the newest NEWEST, and further back one in every d / NEWEST, where
d is the distance from the end. A translated offset is never behind a record that is not consumed yet; where runs
are missing it is as far before as the end of the nearest run.
"""

from __future__ import annotations

import heapq
import json
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

NEWEST = 64
# The marker of the transaction that ended a run; more offsets between runs may be records.
MARKER = 1


class NumberedRun(NamedTuple):
    """Records that follow each other in source and target, with the offsets of the first, and the run's number."""

    source: int
    target: int
    records: int
    number: int

    @property
    def expires(self) -> int:
        """The number of the run with which this one is dropped."""
        return self.number + NEWEST * (self.number & -self.number)

    @property
    def target_end(self) -> int:
        """The target's offset behind the last record."""
        return self.target + self.records


class PartitionOffsetMap:
    """The runs of one partition, by source offset."""

    def __init__(self, runs: Iterable[NumberedRun] = ()) -> None:
        self._runs = sorted(runs)
        self._number = max((run.number for run in self._runs), default=0)
        self._expiring = [(run.expires, run.source) for run in self._runs]
        heapq.heapify(self._expiring)

    @property
    def runs(self) -> tuple[NumberedRun, ...]:
        """The runs that are kept."""
        return tuple(self._runs)

    def add(self, source: int, target: int, records: int) -> tuple[NumberedRun, list[NumberedRun]]:
        """Add a run behind all others; return it, and those that are dropped for it."""
        self._number += 1
        run = NumberedRun(source, target, records, self._number)
        self._runs.append(run)
        heapq.heappush(self._expiring, (run.expires, run.source))
        dropped = []
        while self._expiring[0][0] <= run.number:
            _, expired = heapq.heappop(self._expiring)
            at = bisect_right(self._runs, expired, key=_source) - 1
            dropped.append(self._runs.pop(at))
        return run, dropped

    def translate(self, offset: int) -> int | None:
        """Return the target's offset from which the records from a source offset on are read, none of them skipped.

        None if the map does not reach back so far, or is empty.
        """
        at = bisect_right(self._runs, offset, key=_source) - 1
        if at < 0:
            return None
        run = self._runs[at]
        if offset < run.source + run.records:
            return run.target + offset - run.source
        if at + 1 < len(self._runs) and self._runs[at + 1].target - run.target_end <= MARKER:
            return self._runs[at + 1].target
        return run.target_end


def _source(run: NumberedRun) -> int:
    return run.source


def record_key(topic: str, partition: int, source: int) -> bytes:
    """Return the key of a run's record in the topic that keeps the map."""
    return json.dumps([topic, partition, source]).encode()


def record_value(run: NumberedRun) -> bytes:
    """Return the value of a run's record."""
    return json.dumps({"target": run.target, "records": run.records, "number": run.number}).encode()


def parse_record(key: bytes, value: bytes) -> tuple[str, int, NumberedRun]:
    """Return the topic, the partition and the run of a record."""
    topic, partition, source = json.loads(key)
    return topic, partition, NumberedRun(source=source, **json.loads(value))
