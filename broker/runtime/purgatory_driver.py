"""The purgatory driver: runs a `Purgatory` after the callbacks that are ready now, and at its next deadline.

If a run leaves due operations, the next one follows at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.runtime.alarm import Alarm
from broker.runtime.purgatory import Purgatory

if TYPE_CHECKING:
    import asyncio


class PurgatoryDriver:
    """The caller of `Purgatory.run`."""

    __slots__ = ("_alarm", "_loop", "purgatory")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._alarm = Alarm(loop, self._run)
        self.purgatory = Purgatory(self._alarm.schedule, self._alarm.schedule_at)

    def stop(self) -> None:
        """Cancel the scheduled runs; operations that still wait are neither completed nor expired."""
        self._alarm.cancel()

    def _run(self) -> None:
        try:
            self.purgatory.run(self._loop.time())
        finally:
            self._alarm.schedule_at(self.purgatory.next_deadline)
