"""Produce requests with acks=all that wait for replication (Kafka: `DelayedProduce`).

After a timeout (REQUEST_TIMED_OUT) or a loss of leadership (NOT_LEADER_OR_FOLLOWER) the records stay in the log, and
may still be committed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, ClassVar

from broker.runtime.deferred import Deferred
from broker.runtime.purgatory import DelayedOperation, Purgatory
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.replication.partition import Partition


class DelayedProduce(DelayedOperation):
    """An operation that completes once the result of each write is known, or at its deadline."""

    kind: ClassVar[str] = "Produce"
    __slots__ = ("_outcomes", "_purgatory", "_writes", "outcomes")

    def __init__(
        self,
        purgatory: Purgatory,
        writes: list[tuple[Partition, int]],
        outcomes: Deferred[list[ErrorCode]],
        deadline: float,
    ) -> None:
        """Wait for each (partition, end offset) of `writes`; `outcomes` gets an error code for each."""
        self._purgatory = purgatory
        self._writes = writes
        self._outcomes: list[ErrorCode | None] = [None] * len(writes)
        self.outcomes = outcomes
        for partition, _ in writes:
            purgatory.watch(partition, self)
        purgatory.expire_at(self, deadline)
        self.act()

    def woken(self, key: Hashable, size_bytes: int) -> None:
        """Do nothing: `act` checks every open write."""

    def act(self) -> None:
        """Complete if the result of every write is known."""
        for at, (partition, end_offset) in enumerate(self._writes):
            if self._outcomes[at] is None:
                self._outcomes[at] = partition.committed(end_offset)
        if None not in self._outcomes or self.outcomes.done():
            self._finish()

    def expire(self) -> None:
        """Complete, with REQUEST_TIMED_OUT for each open write."""
        self._finish()

    def _finish(self) -> None:
        self.cancel()
        for partition, _ in self._writes:
            self._purgatory.unwatch(partition, self)
        if not self.outcomes.done():
            self.outcomes.answer([ErrorCode.REQUEST_TIMED_OUT if code is None else code for code in self._outcomes])
