"""A history, indexed for the checks of `records.py` and `transactions.py`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from tests.chaos.history.events import (
    Abort,
    Acknowledged,
    Assigned,
    Commit,
    Committed,
    Event,
    Failed,
    Offsets,
    Polled,
    Producer,
    ReadBack,
    Records,
    Send,
    Unknown,
)

Place = tuple[str, int]
"""A partition and an offset."""


class Anomaly(NamedTuple):
    """An anomaly, and its place."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


class Transaction(NamedTuple):
    """A transaction: the process that ran it, and the process's name for it."""

    process: str
    name: str

    def __str__(self) -> str:
        return f"{self.process}/{self.name}"


def topic_of(partition: str) -> str:
    return partition.rpartition("-")[0]


class History:
    """A history, indexed for the checks."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.idempotent: set[str] = set()
        self.sends: dict[str, Send] = {}
        self.sent: dict[tuple[str, str], list[str]] = defaultdict(list)
        """The values of each producer and partition, in order."""
        self.acknowledged: dict[str, Place] = {}
        self.unknown = 0
        self.failed: set[str] = set()
        self.transactions: dict[Transaction, list[Send]] = defaultdict(list)
        self.commits: dict[Transaction, int] = {}
        """The place in the history of each commit's request."""
        self.committed: set[Transaction] = set()
        self.aborted: set[Transaction] = set()
        self.polls: list[tuple[int, Polled]] = []
        self.runs: dict[tuple[str, int, str], Records] = defaultdict(list)
        """The records that each consumer received in each of its assignments, by partition."""
        self.assignments: Counter[str] = Counter()
        self.topics: dict[str, set[str]] = defaultdict(set)
        """The topics of each group."""
        self.members: dict[str, str] = {}
        """The group of each consumer."""
        self.final: dict[str, dict[int, str]] = defaultdict(dict)
        self.complete: set[str] = set()
        self.offsets: dict[str, dict[str, int]] = {}
        """The offsets of each pipeline's group, by partition."""
        self.records: dict[Place, set[str]] = defaultdict(set)
        self.places: dict[str, set[Place]] = defaultdict(set)
        for at, event in enumerate(events):
            self._take(at, event)

    def _take(self, at: int, event: Event) -> None:
        match event:
            case Producer(process, idempotent):
                if idempotent:
                    self.idempotent.add(process)
            case Send(process, partition, value, transaction):
                self.sends[value] = event
                self.sent[process, partition].append(value)
                if transaction:
                    self.transactions[Transaction(process, transaction)].append(event)
            case Acknowledged(_, partition, value, offset):
                self.acknowledged[value] = (partition, offset)
                if offset >= 0:
                    self._place((partition, offset), value)
            case Unknown():
                self.unknown += 1
            case Failed(_, value):
                self.failed.add(value)
            case Commit(process, transaction):
                self.commits.setdefault(Transaction(process, transaction), at)
            case Committed(process, transaction):
                self.committed.add(Transaction(process, transaction))
            case Abort(process, transaction):
                self.aborted.add(Transaction(process, transaction))
            case Assigned(process, group, partitions):
                self.assignments[process] += 1
                self._joined(process, group, *partitions)
            case Polled(process, group, partition, records):
                self.polls.append((at, event))
                self._joined(process, group, partition)
                self.runs[process, self.assignments[process], partition] += records
                self._read(partition, records)
            case ReadBack(partition, records, complete):
                self.final[partition] |= dict(records)
                self._read(partition, records)
                if complete:
                    self.complete.add(partition)
            case Offsets(group, offsets):
                self.offsets[group] = offsets

    def _joined(self, process: str, group: str, *partitions: str) -> None:
        if group:
            self.members[process] = group
            self.topics[group].update(map(topic_of, partitions))

    def _read(self, partition: str, records: Records) -> None:
        for offset, value in records:
            self._place((partition, offset), value)

    def _place(self, place: Place, value: str) -> None:
        self.records[place].add(value)
        self.places[value].add(place)

    def counts(self) -> dict[str, int]:
        """Return the number of events of each kind."""
        counts = {
            "sent": len(self.sends),
            "acknowledged": len(self.acknowledged),
            "of them without offset": sum(offset < 0 for _, offset in self.acknowledged.values()),
            "unknown": self.unknown,
            "failed": len(self.failed),
            "polled": sum(len(poll.records) for _, poll in self.polls),
            "assignments": self.assignments.total(),
            "read back": sum(map(len, self.final.values())),
        }
        if self.transactions:
            counts |= {
                "transactions": len(self.transactions.keys() | self.commits.keys() | self.aborted),
                "committed": len(self.committed),
                "aborted": len(self.aborted),
                "ambiguous commits": len(self.commits.keys() - self.committed - self.aborted),
            }
        return counts

    @cached_property
    def durable(self) -> dict[str, Place]:
        """The records that must be stored: acknowledged, and committed if they are of a transaction."""
        return {value: place for value, place in self.acknowledged.items() if self._is_durable(value)}

    def _is_durable(self, value: str) -> bool:
        transaction = self.transaction_of(value)
        return transaction is None or transaction in self.committed

    @cached_property
    def there(self) -> dict[str, Place]:
        """The records that were stored at the end, and where."""
        return {
            value: (partition, offset) for partition, records in self.final.items() for offset, value in records.items()
        }

    @cached_property
    def seen(self) -> dict[str, set[str]]:
        """The records that each group received."""
        seen: dict[str, set[str]] = defaultdict(set)
        for _, poll in self.polls:
            if poll.group:
                seen[poll.group].update(value for _, value in poll.records)
        return seen

    def due(self, group: str) -> set[str]:
        """Return the records that a group must receive: the durable ones of its topics."""
        topics = self.topics[group]
        return {value for value, (partition, _) in self.durable.items() if topic_of(partition) in topics}

    def transaction_of(self, value: str) -> Transaction | None:
        """Return the transaction in which a record was sent, if any."""
        send = self.sends.get(value)
        return Transaction(send.process, send.transaction) if send is not None and send.transaction else None

    def is_aborted(self, value: str) -> bool:
        """Return whether a record must never be read."""
        return value in self.failed or self.transaction_of(value) in self.aborted

    def where(self, value: str) -> str:
        """Return the places at which a record was acknowledged or read."""
        return ", ".join(f"{partition}@{offset}" for partition, offset in sorted(self.places[value])) or "no offset"
