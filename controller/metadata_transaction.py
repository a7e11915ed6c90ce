"""Metadata transactions: records of several batches that are applied together or not at all (KIP-868).

    BeginTransactionRecord    the records that follow are held
    EndTransactionRecord      the held records are applied, in order
    AbortTransactionRecord    the held records are dropped

Kafka's first controller writes a cluster's bootstrap records in a transaction. This broker writes transactions within
one batch only, so it never leaves one open; a log of Apache Kafka may end with an open one if its controller failed. A
new active controller aborts that before it writes anything else. No snapshot is taken while a transaction is open: the
image would lack its records although their offsets are below the image's.

Kafka: `MetadataBatchLoader`.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocol.errors import InvariantError
from protocol.records.metadata import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from protocol.schema import Message

_MARKERS: frozenset[type[Message]] = frozenset((AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord))


class MetadataTransaction:
    """The open transaction of a metadata log, if any."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: list[Message] | None = None

    @property
    def is_open(self) -> bool:
        """Return whether a transaction is open."""
        return self._held is not None

    def replay(self, records: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the records to apply after the log's next `records`; InvariantError if markers are out of order."""
        if self._held is None and _MARKERS.isdisjoint(map(type, records)):
            return records
        return tuple(self._replay(records))

    def _replay(self, records: Iterable[Message]) -> Iterable[Message]:
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
