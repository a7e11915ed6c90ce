"""Requests that wait for other replicas (Kafka: `DelayedProduce`, `DelayedDeleteRecords`).

After a timeout (REQUEST_TIMED_OUT) or a loss of leadership (NOT_LEADER_OR_FOLLOWER) the records stay in the log, and
may still be committed; deleted records stay deleted here.
"""

from collections.abc import Hashable
from typing import ClassVar

from broker.replication.partition import Partition
from broker.runtime.deferred import Deferred
from broker.runtime.purgatory import DelayedOperation, Purgatory
from protocol.errors import ErrorCode


class DelayedProduce(DelayedOperation):
    """A Produce with acks=all: completes once the result of each write is known, or at its deadline."""

    kind: ClassVar[str] = "Produce"
    __slots__ = ("_codes", "_outcomes", "_purgatory", "_writes")

    def __init__(
        self,
        purgatory: Purgatory,
        writes: list[tuple[Partition, int]],
        outcomes: Deferred[list[ErrorCode]],
        deadline: float,
    ) -> None:
        """Wait for each (partition, offset) of `writes`; `outcomes` gets an error code for each."""
        super().__init__()
        self._purgatory = purgatory
        self._writes = writes
        self._codes: list[ErrorCode | None] = [None] * len(writes)
        self._outcomes = outcomes
        for partition, _ in writes:
            purgatory.watch(partition, self)
        purgatory.expire_at(self, deadline)
        self.act()

    def woken(self, key: Hashable, size_bytes: int) -> None:
        """Do nothing: `act` checks every open write."""

    def act(self) -> None:
        """Complete if the result of every write is known."""
        for at, (partition, offset) in enumerate(self._writes):
            if self._codes[at] is None:
                self._codes[at] = self._code(partition, offset)
        if None not in self._codes or self._outcomes.done():
            self.expire()

    def _code(self, partition: Partition, offset: int) -> ErrorCode | None:
        return partition.committed(offset)

    def expire(self) -> None:
        """Complete, with REQUEST_TIMED_OUT for each open write."""
        self.cancel()
        for partition, _ in self._writes:
            self._purgatory.unwatch(partition, self)
        if not self._outcomes.done():
            self._outcomes.answer([ErrorCode.REQUEST_TIMED_OUT if code is None else code for code in self._codes])


class DelayedDeleteRecords(DelayedProduce):
    """A DeleteRecords: completes once every replica has deleted the records, or at its deadline."""

    kind: ClassVar[str] = "DeleteRecords"
    __slots__ = ()

    def _code(self, partition: Partition, offset: int) -> ErrorCode | None:
        return partition.deleted(offset)
