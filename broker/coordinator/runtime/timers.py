"""Timers of a coordinator's shard (Kafka: `CoordinatorTimer`).

An event is a value of the timer's owner, a NamedTuple for each kind: a load creates it again, and the log and the tests
print it. Times are the event loop's, in seconds.
"""

from typing import Any

from broker.runtime.deadline_queue import DeadlineQueue, Scheduled


class Timer(Scheduled):
    """A deadline with its event."""

    __slots__ = ("event",)

    def __init__(self, event: object) -> None:
        super().__init__()
        self.event: Any = event


class Timers(DeadlineQueue[Timer]):
    """The timers of one shard."""

    __slots__ = ()
