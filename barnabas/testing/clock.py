"""The clock of a cluster: the wall and monotonic clocks of its brokers, which a test advances."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from barnabas.testing._control import path_of
from barnabas.testing._nodes import Nodes
from barnabas.testing.broker import Broker

_MS = timedelta(milliseconds=1)


class Clock:
    """The clock of all brokers of a cluster. Clients keep theirs."""

    def __init__(self, nodes: Nodes) -> None:
        """Begin with the time of the system."""
        self._nodes = nodes
        self.advanced = timedelta()
        """How far the clock is ahead of the system's."""
        for broker in nodes.brokers:
            broker.on_ready.append(self._catch_up)
            broker.on_resumed.append(self._catch_up)

    @property
    def now(self) -> datetime:
        """The wall clock of the brokers, in UTC."""
        wall_ms = self._nodes.serving[0].control.call("GET", path_of("clock"))["wall_ms"]
        return datetime.fromtimestamp(wall_ms / 1000, UTC)

    def advance(
        self,
        delta: timedelta | None = None,
        *,
        days: float | None = None,
        hours: float | None = None,
        minutes: float | None = None,
        seconds: float | None = None,
    ) -> None:
        """Advance the clock; return when every timer that became due has fired, in the order of the deadlines.

        Sessions, rebalances, transactions, retention, compaction, and the expiry of offsets, producers and
        transactional ids follow. Elections, heartbeats of brokers and replication do not: a cluster stays together. A
        broker that is down or paused has the same clock once it runs again. ValueError for a negative time, TypeError
        without one.
        """
        if not isinstance(delta, timedelta | None):
            raise TypeError(f"advance({delta!r}): which unit? write for example advance(seconds={delta!r})")
        if all(part is None for part in (delta, days, hours, minutes, seconds)):
            raise TypeError("advance() has no time: write for example advance(hours=25), or give a timedelta")
        by = (delta or timedelta()) + timedelta(days or 0, hours=hours or 0, minutes=minutes or 0, seconds=seconds or 0)
        if by < timedelta():
            raise ValueError(
                f"the clock cannot go back by {-by}: start the brokers again, and it has the system's time"
            )
        self._nodes.call_all("POST", path_of("clock", "advance"), {"ms": by // _MS})
        self.advanced += by

    def reset(self) -> None:
        """Restart the brokers, with the system's time, if the clock was advanced."""
        if self.advanced:
            self.advanced = timedelta()
            for broker in self._nodes.brokers:
                broker.restart()

    def _catch_up(self, broker: Broker) -> None:
        """Advance the clock of a broker that was down or paused to that of the others."""
        if not self.advanced:
            return
        behind_ms = self.advanced // _MS - broker.control.call("GET", path_of("clock"))["clock_ms"]
        if behind_ms > 0:
            broker.control.call("POST", path_of("clock", "advance"), {"ms": behind_ms})
