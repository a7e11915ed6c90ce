"""Waiting for replicas: writes with acks=all are answered once they are committed.

A time-out says nothing about the records: they stay in the log, and may be committed yet
(REQUEST_TIMED_OUT). A leader that lost its leadership does not know either (NOT_LEADER_OR_FOLLOWER).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from broker.runtime.deferred import Promise
from broker.runtime.purgatory import Purgatory
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.replication.partition import Partition


class Acknowledgement:
    """How each of some writes came out, once all of that is known or the time is up."""

    __slots__ = ("_outcomes", "_purgatory", "_writes", "outcomes")

    def __init__(
        self,
        purgatory: Purgatory,
        writes: list[tuple[Partition, int]],
        outcomes: Promise[list[ErrorCode]],
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

    @property
    def done(self) -> bool:
        """Say whether the outcomes are known, or nobody waits for them any more."""
        return self.outcomes.done()

    def woken(self, key: Hashable, size_bytes: int) -> None:
        """Take note that a partition changed: `act` looks at each that is not settled."""

    def act(self) -> None:
        """Finish, if every write is settled."""
        for at, (partition, end_offset) in enumerate(self._writes):
            if self._outcomes[at] is None:
                self._outcomes[at] = partition.committed(end_offset)
        if self.done or None not in self._outcomes:
            self._finish()

    def expire(self) -> None:
        """Finish, with a time-out for each write that is not settled."""
        self._finish()

    def _finish(self) -> None:
        for partition, _ in self._writes:
            self._purgatory.unwatch(partition, self)
        if not self.outcomes.done():
            self.outcomes.answer([ErrorCode.REQUEST_TIMED_OUT if code is None else code for code in self._outcomes])
