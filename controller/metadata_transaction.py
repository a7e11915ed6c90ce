"""Metadata transactions: records that are applied together or not at all, though they span batches (KIP-868).

    BeginTransactionRecord    records are held from here on
    EndTransactionRecord      the held records are applied, in order
    AbortTransactionRecord    they are dropped

Kafka's first controller writes the bootstrap records of a cluster in such a transaction. This broker writes a
transaction within one batch only, so it leaves none open; a log of Apache Kafka may end in one whose controller died. A
new active controller aborts it before it writes anything else. No snapshot is taken while one is open: the image lacks
its records, though they lie before the image's offset.

Kafka: `MetadataBatchLoader`.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocol.errors import InvariantError
from protocol.records.metadata import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from protocol.schema import Message

_KINDS: frozenset[type[Message]] = frozenset((AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord))


class MetadataTransaction:
    """The transaction of a metadata log that is open at one offset, if any."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: list[Message] | None = None

    @property
    def is_open(self) -> bool:
        """Return whether records are held."""
        return self._held is not None

    def take(self, records: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return what may be applied after the next `records` of the log; InvariantError if they cannot be next."""
        if self._held is None and _KINDS.isdisjoint(map(type, records)):
            return records
        return tuple(self._follow(records))

    def _follow(self, records: Iterable[Message]) -> Iterable[Message]:
        for record in records:
            if isinstance(record, BeginTransactionRecord):
                if self._held is not None:
                    raise InvariantError("the metadata log begins a transaction within another")
                self._held = []
            elif isinstance(record, (EndTransactionRecord, AbortTransactionRecord)):
                if self._held is None:
                    raise InvariantError("the metadata log ends a transaction that it has not begun")
                held, self._held = self._held, None
                if isinstance(record, EndTransactionRecord):
                    yield from held
            elif self._held is not None:
                self._held.append(record)
            else:
                yield record
