"""Checks a history against Kafka's guarantees.

    lost write            acknowledged or read, and missing at the end
    aborted read          a failed or aborted record was read (G1a)
    duplicate             an idempotent producer's record has two offsets
    inconsistent offsets  an offset has two records
    unsent read           a record was read that no producer sent
    non-monotonic poll    within one assignment, a consumer's position went back
    skipped poll          within one assignment, a consumer did not receive a record
    non-monotonic send    an idempotent producer's records are not stored in the order in which they were sent
    precommitted read     a transaction's record was read before its commit was requested
    unseen                acknowledged, stored at the end, and never received by a group that received others

Allowed, as in Jepsen's workload for Kafka: write cycles (G0), gaps between the records that one producer sends, and
skips and repetitions across assignments. A run with fewer than `MIN_ACKNOWLEDGED` acknowledgements, or in which less
than `MIN_READ_BACK` of the acknowledged records were read back, is inconclusive: its outcome is unknown, never passed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from tests.chaos.history.events import (
    Abort,
    Acknowledged,
    Assigned,
    Commit,
    Event,
    Failed,
    Polled,
    Producer,
    ReadBack,
    Records,
    Send,
    Unknown,
)

MIN_ACKNOWLEDGED = 100
MIN_READ_BACK = 0.9

PASSED, FAILED, UNKNOWN = "passed", "failed", "unknown"

Place = tuple[str, int]
"""A partition and an offset."""


class Anomaly(NamedTuple):
    """An anomaly, and its place."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


class Verdict(NamedTuple):
    """The verdict on a history: the outcome, why it is unknown, all anomalies, and the event counts."""

    outcome: str
    reason: str
    anomalies: list[Anomaly]
    counts: dict[str, int]

    def __str__(self) -> str:
        kinds = Counter(anomaly.name for anomaly in self.anomalies)
        lines = [f"{self.outcome}{self.reason and ': '}{self.reason}"]
        lines += [f"{count:>8} {what}" for what, count in self.counts.items()]
        lines += [f"{count:>8} x {name}" for name, count in kinds.items()]
        return "\n".join([*lines, *map(str, self.anomalies[:20])])


def check(events: Iterable[Event], min_acknowledged: int = MIN_ACKNOWLEDGED) -> Verdict:
    """Return the verdict on a whole history."""
    history = _History(events)
    anomalies = [*history.anomalies()]
    unseen = [*history.unseen()]
    reason = history.too_little(min_acknowledged)
    if anomalies:
        return Verdict(FAILED, "", anomalies + unseen, history.counts())
    if reason:
        return Verdict(UNKNOWN, reason, [], history.counts())
    return Verdict(FAILED if unseen else PASSED, "", unseen, history.counts())


class _History:
    """A history, indexed for the checks."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._idempotent: set[str] = set()
        self._sends: dict[str, Send] = {}
        self._sent: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._acknowledged: dict[str, Place] = {}
        self._unknown = 0
        self._failed: set[str] = set()
        self._commits: dict[tuple[str, str], int] = {}
        self._aborted: set[tuple[str, str]] = set()
        self._epochs: Counter[str] = Counter()
        self._polls: list[tuple[int, Polled]] = []
        self._runs: dict[tuple[str, int, str], Records] = defaultdict(list)
        """The records that each consumer received in each of its assignments, by partition."""
        self._final: dict[str, dict[int, str]] = defaultdict(dict)
        self._complete: set[str] = set()
        self._records: dict[Place, set[str]] = defaultdict(set)
        self._places: dict[str, set[Place]] = defaultdict(set)
        for at, event in enumerate(events):
            self._take(at, event)

    def _take(self, at: int, event: Event) -> None:
        match event:
            case Producer(process, idempotent):
                if idempotent:
                    self._idempotent.add(process)
            case Send(process, partition, value):
                self._sends[value] = event
                self._sent[process, partition].append(value)
            case Acknowledged(_, partition, value, offset):
                self._acknowledged[value] = (partition, offset)
                if offset >= 0:
                    self._place((partition, offset), value)
            case Unknown():
                self._unknown += 1
            case Failed(_, value):
                self._failed.add(value)
            case Commit(process, transaction):
                self._commits.setdefault((process, transaction), at)
            case Abort(process, transaction):
                self._aborted.add((process, transaction))
            case Assigned(process):
                self._epochs[process] += 1
            case Polled(process, _, partition, records):
                self._polls.append((at, event))
                self._runs[process, self._epochs[process], partition] += records
                self._read(partition, records)
            case ReadBack(partition, records, complete):
                self._final[partition] |= dict(records)
                self._read(partition, records)
                if complete:
                    self._complete.add(partition)

    def _read(self, partition: str, records: Records) -> None:
        for offset, value in records:
            self._place((partition, offset), value)

    def _place(self, place: Place, value: str) -> None:
        self._records[place].add(value)
        self._places[value].add(place)

    def counts(self) -> dict[str, int]:
        """Return the number of events of each kind."""
        return {
            "sent": len(self._sends),
            "acknowledged": len(self._acknowledged),
            "unknown": self._unknown,
            "failed": len(self._failed),
            "polled": sum(len(poll.records) for _, poll in self._polls),
            "assignments": self._epochs.total(),
            "read back": sum(map(len, self._final.values())),
        }

    def too_little(self, min_acknowledged: int) -> str:
        """Return why the history is too short for a verdict; empty if it is long enough."""
        acknowledged = len(self._acknowledged)
        if acknowledged < min_acknowledged:
            return f"{acknowledged} records acknowledged, fewer than {min_acknowledged}"
        there = {value for records in self._final.values() for value in records.values()}
        read = len(self._acknowledged.keys() & there)
        if read < MIN_READ_BACK * acknowledged:
            return f"{read} of {acknowledged} acknowledged records read back"
        if not self._polls:
            return "nothing was polled"
        for group, values in self._seen().items():
            if len(self._acknowledged.keys() & values) < MIN_READ_BACK * acknowledged:
                return f"{len(values)} records polled by {group}, of {acknowledged} acknowledged"
        return ""

    def anomalies(self) -> Iterator[Anomaly]:
        """Yield the anomalies, however short the history is."""
        yield from self._lost_writes()
        yield from self._aborted_reads()
        yield from self._duplicates()
        yield from self._inconsistent_offsets()
        yield from self._unsent_reads()
        yield from self._polls_out_of_order()
        yield from self._sends_out_of_order()
        yield from self._precommitted_reads()

    def unseen(self) -> Iterator[Anomaly]:
        """Yield the records that no consumer of a group received."""
        there = {value for records in self._final.values() for value in records.values()}
        for group, values in self._seen().items():
            for value in (self._acknowledged.keys() & there) - values:
                yield Anomaly("unseen", f"{value} at {self._where(value)} was never given to {group}")

    def _seen(self) -> dict[str, set[str]]:
        seen: dict[str, set[str]] = defaultdict(set)
        for _, poll in self._polls:
            seen[poll.group].update(value for _, value in poll.records)
        return seen

    def _where(self, value: str) -> str:
        return ", ".join(f"{partition}@{offset}" for partition, offset in sorted(self._places[value])) or "no offset"

    def _lost_writes(self) -> Iterator[Anomaly]:
        there = {(partition, value) for partition, records in self._final.items() for value in records.values()}
        known = {(partition, value) for value, (partition, _) in self._acknowledged.items()}
        known |= {(poll.partition, value) for _, poll in self._polls for _, value in poll.records}
        for partition, value in sorted(known - there):
            offsets = [offset for where, offset in self._places[value] if where == partition]
            passed = offsets and min(offsets) < max(self._final[partition], default=-1)
            if (partition in self._complete or passed) and not self._is_aborted(value):
                how = "acknowledged" if value in self._acknowledged else "read"
                yield Anomaly("lost write", f"{value} was {how} at {self._where(value)} of {partition}, and is gone")

    def _is_aborted(self, value: str) -> bool:
        send = self._sends.get(value)
        return value in self._failed or (send is not None and (send.process, send.transaction) in self._aborted)

    def _aborted_reads(self) -> Iterator[Anomaly]:
        read = {value for _, poll in self._polls for _, value in poll.records}
        read |= {value for records in self._final.values() for value in records.values()}
        for value in sorted(filter(self._is_aborted, read)):
            yield Anomaly("aborted read", f"{value} at {self._where(value)} had failed, or was aborted")

    def _duplicates(self) -> Iterator[Anomaly]:
        for value, places in self._places.items():
            send = self._sends.get(value)
            if len(places) > 1 and send is not None and send.process in self._idempotent:
                yield Anomaly("duplicate", f"{value} is at {self._where(value)}")

    def _inconsistent_offsets(self) -> Iterator[Anomaly]:
        for (partition, offset), values in self._records.items():
            if len(values) > 1:
                yield Anomaly("inconsistent offsets", f"{partition}@{offset} holds {', '.join(sorted(values))}")

    def _unsent_reads(self) -> Iterator[Anomaly]:
        for value in sorted(self._places.keys() - self._sends.keys()):
            yield Anomaly("unsent read", f"{value!r} at {self._where(value)} was never sent")

    def _polls_out_of_order(self) -> Iterator[Anomaly]:
        for (process, _, partition), records in self._runs.items():
            for (before, _), (after, _) in pairwise(records):
                if after <= before:
                    yield Anomaly("non-monotonic poll", f"{process} was given {partition}@{after} after @{before}")
                missing = [offset for offset in range(before + 1, after) if offset in self._final[partition]]
                if missing:
                    yield Anomaly("skipped poll", f"{process} was led past {partition}@{missing[0]} to @{after}")

    def _sends_out_of_order(self) -> Iterator[Anomaly]:
        for (process, partition), values in self._sent.items():
            if process not in self._idempotent:
                continue
            places = ((value, *self._acknowledged.get(value, ("", -1))) for value in values)
            known = [(value, offset) for value, where, offset in places if where == partition and offset >= 0]
            for (first, before), (second, after) in pairwise(known):
                if after <= before:
                    text = f"{process} sent {first} before {second}, which is at {partition}@{after}, before @{before}"
                    yield Anomaly("non-monotonic send", text)

    def _precommitted_reads(self) -> Iterator[Anomaly]:
        for at, poll in self._polls:
            for offset, value in poll.records:
                send = self._sends.get(value)
                if send is None or not send.transaction or self._is_aborted(value):
                    continue
                if self._commits.get((send.process, send.transaction), at) >= at:
                    yield Anomaly("precommitted read", f"{value} at {poll.partition}@{offset} was not committed yet")
