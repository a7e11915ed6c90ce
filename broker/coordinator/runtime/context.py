"""The context of a shard's rules: what they use from outside, and the effects that they return.

A `CoordinatorContext` is the handling of one event. It has the time, timers and randomness of the rules, and collects
their effects, which are performed in order. Each kind of coordinator extends it by its settings. The rules use nothing
else from outside.

An `Append` is the only effect with a continuation: its `then` is called with a new context, with error NONE once its
records are below the high watermark, or with the error if they could not be written. A response that depends on the
records is sent there, never before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from random import Random
    from typing import Self

    from broker.coordinator.runtime.timers import Timer, Timers

Record = tuple[bytes, bytes | None]
"""Key and value of a record of the coordinator's topic; None as value is a tombstone."""

T = TypeVar("T")


class ProducerIdAndEpoch(NamedTuple):
    """A transactional producer."""

    producer_id: int
    epoch: int


class CoordinatorResult(NamedTuple, Generic[T]):
    """The decision of a write operation: its records, and the response to send once they are committed.

    With a `producer` the records belong to its open transaction. Unless `is_atomic`, each record is valid on its own,
    and they may be split into several batches.
    """

    records: list[Record]
    response: T
    producer: ProducerIdAndEpoch | None = None
    is_atomic: bool = True


class CoordinatorResponse(NamedTuple):
    """The effect of sending `result` to the waiting request `to`."""

    to: object
    result: Any


class Append(NamedTuple):
    """The effect of writing `records`, then calling `then`."""

    records: list[Record]
    then: Callable[[Any, ErrorCode], None]


class CoordinatorLog(Protocol):
    """The logger that the rules use."""

    def info(self, message: str, *args: object) -> None:
        """Log a new state; `args` are filled in as by %."""

    def debug(self, message: str, *args: object) -> None:
        """Log a step between states."""


class CoordinatorContext:
    """The handling of one event. `now` is the event loop's time in seconds, `now_ms` the wall clock."""

    __slots__ = ("effects", "log", "now", "now_ms", "random", "timers")

    def __init__(self, now: float, now_ms: int, timers: Timers, random: Random, log: CoordinatorLog) -> None:
        self.now = now
        self.now_ms = now_ms
        self.timers = timers
        self.random = random
        self.log = log
        self.effects: list[CoordinatorResponse | Append] = []

    def answer(self, to: object, result: object) -> None:
        """Add the effect of sending `result` to the waiting request `to`."""
        self.effects.append(CoordinatorResponse(to, result))

    def append(self, records: list[Record], then: Callable[[Self, ErrorCode], None]) -> None:
        """Add the effect of writing `records`, and calling `then` with the result of everything written so far.

        Without records that is also what was loaded: a former coordinator's last records may not be committed yet.
        """
        self.effects.append(Append(records, then))

    def schedule(self, timer: Timer, delay_ms: int) -> None:
        """Set `timer` to fire in `delay_ms`."""
        self.timers.schedule(timer, self.now + delay_ms / 1000)
