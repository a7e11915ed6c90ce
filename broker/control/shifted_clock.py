"""A clock that a test advances: the wall clock, and the timers of what clients see.

Theory of operation. Time runs as on the machine, plus a shift. What clients see has its timers here: sessions and
rebalances of groups, retention, compaction, expiry of offsets, producers and transactions. What keeps the cluster
together does not: elections, heartbeats of brokers, replication, requests in flight and connections run by the event
loop's own time. So the brokers of a cluster can be advanced one after the other.

`advance` moves time forward in steps and lets the work of each step end before the next. A timer fires at its deadline,
in the order of deadlines, with those that earlier ones set: an expired session empties a group, whose offsets expire a
week later. A periodic task would run thousands of times in a day. It runs at ticks instead, each half as far again from
the beginning as the one before, so also at the end, and a tick later than another task whose work it needs.

A task that is still at work when time moves on, since it waits for a thread or the disk, has missed ticks: an advance
waits for it at the end, at most `_LATE_S`, and lets it run again if its interval has passed since its last run began.

Whatever the number of timers, an advance takes `_BUDGET_S` of real time and the work of its last step; then the timers
that are left fire together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from heapq import heappop, heappush
from typing import NamedTuple, TypeVarTuple, Unpack

A = TypeVarTuple("A")

_FIRST_TICK_S = 1.0
_TICK_FACTOR = 1.5
_BUDGET_S = 0.3
_SETTLE_S = 0.05
"""Real time in which the periodic tasks of a step can end; they may wait for the disk."""
_LATE_S = 5.0
"""Real time in which those of the last step, and late ones, can end."""
_TURNS = 10
"""Turns of the event loop after each step, for what its timers began."""


class _Run(NamedTuple):
    """A run of a periodic task: the time when it was woken, and the shift at that time."""

    begun: float
    shift_s: float


class ShiftedClock:
    """The clock of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now_ms: Callable[[], int], shift_ms: int = 0) -> None:
        """Begin with a shift against the machine's time."""
        self._loop = loop
        self._machine_ms = now_ms
        self._shift_s = shift_ms / 1000
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._periodic: list[tuple[float, int, asyncio.Future[None], asyncio.Task[object] | None]] = []
        self._sequence = 0
        self._wake_up: asyncio.TimerHandle | None = None
        self._wake_up_s = 0.0
        self._advancing = asyncio.Lock()
        self._at_work: dict[asyncio.Task[object], _Run] = {}
        """The runs of periodic tasks that were woken and do not sleep again yet."""
        self._all_asleep = asyncio.Event()
        self.loop: asyncio.AbstractEventLoop = ShiftedLoop(self, loop)  # type: ignore[abstract]  # the parts that are used
        """The event loop of the timers."""

    @property
    def shift_ms(self) -> int:
        """Return by how much time was advanced."""
        return round(self._shift_s * 1000)

    def now_ms(self) -> int:
        """Return the wall clock in ms."""
        return self._machine_ms() + self.shift_ms

    def time(self) -> float:
        """Return the monotonic time in seconds, by which the timers are set."""
        return self._loop.time() + self._shift_s

    def call_at(self, when: float, handle: asyncio.TimerHandle) -> None:
        """Run `handle` at `when`, unless it is cancelled before."""
        self._sequence += 1
        heappush(self._timers, (when, self._sequence, handle))
        self._set_wake_up()

    async def sleep(self, seconds: float) -> None:
        """Sleep between two runs of a periodic task."""
        task = asyncio.current_task()
        begun = self.time()
        run = None if task is None else self._at_work.get(task)
        if task is not None and run is not None:
            if run.shift_s != self._shift_s:  # time was advanced meanwhile: it may have missed its next run
                begun = run.begun
            self._is_asleep(task)
        woken = self._loop.create_future()
        self._sequence += 1
        heappush(self._periodic, (begun + seconds, self._sequence, woken, task))
        self._set_wake_up()
        await woken

    def _is_asleep(self, task: asyncio.Task[object]) -> None:
        """Note that a task that was woken sleeps again, or has ended."""
        del self._at_work[task]
        task.remove_done_callback(self._is_asleep)
        if not self._at_work:
            self._all_asleep.set()

    async def advance(self, ms: int) -> int:
        """Advance time by `ms`; return how many timers fired, those of periodic tasks too."""
        async with self._advancing:
            begun, given_up = self.time(), self._loop.time() + _BUDGET_S
            end_shift_s = self._shift_s + ms / 1000
            target = begun + ms / 1000
            tick = begun + _FIRST_TICK_S
            fired = 0
            while self._loop.time() < given_up:
                at = min(self._next_timer(), tick)
                if at >= target:
                    break
                self._shift_s = max(self._shift_s, min(end_shift_s, at - self._loop.time()))
                fired += self._fire_timers()
                if at >= tick:
                    fired += self._wake_periodic()
                    tick = begun + (tick - begun) * _TICK_FACTOR
                await self._settle(_SETTLE_S)
            self._shift_s = end_shift_s
            fired += self._fire_timers()
            for _ in range(2):  # then the late ones, for which the first round waits
                fired += self._wake_periodic()
                await self._settle(_LATE_S)
            self._set_wake_up()
            return fired

    def _next_timer(self) -> float:
        """Return the deadline of the earliest timer; infinity without any."""
        while self._timers and self._timers[0][2].cancelled():
            heappop(self._timers)
        return self._timers[0][0] if self._timers else float("inf")

    def _fire_timers(self) -> int:
        """Run the timers that are due now, in their order; return how many."""
        now, fired = self.time(), 0
        while self._next_timer() <= now:
            handle = heappop(self._timers)[2]
            handle._run()
            fired += 1
        return fired

    def _wake_periodic(self) -> int:
        """Wake the periodic tasks that are due now; return how many."""
        now, woken = self.time(), 0
        while self._periodic and self._periodic[0][0] <= now:
            _, _, sleeper, task = heappop(self._periodic)
            if sleeper.done():
                continue
            sleeper.set_result(None)
            woken += 1
            if task is not None:
                self._at_work[task] = _Run(now, self._shift_s)
                task.add_done_callback(self._is_asleep)
                self._all_asleep.clear()
        return woken

    async def _settle(self, most_s: float) -> None:
        """Let the work of a step end: callbacks, and for at most `most_s` periodic tasks."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        if self._at_work:
            with suppress(TimeoutError):
                async with asyncio.timeout(most_s):
                    await self._all_asleep.wait()

    def _set_wake_up(self) -> None:
        """Set the timer of the event loop to the earliest deadline."""
        earliest = min(self._next_timer(), self._periodic[0][0] if self._periodic else float("inf"))
        if self._wake_up is not None:
            if self._wake_up_s <= earliest - self._shift_s and not self._wake_up.cancelled():
                return
            self._wake_up.cancel()
        # uvloop returns a handle without `when` for a deadline that is past.
        self._wake_up_s = earliest - self._shift_s
        self._wake_up = None if earliest == float("inf") else self._loop.call_at(self._wake_up_s, self._run_due)

    def _run_due(self) -> None:
        self._wake_up = None
        if not self._advancing.locked():
            self._fire_timers()
            self._wake_periodic()
        self._set_wake_up()


class ShiftedLoop(asyncio.AbstractEventLoop):
    """An event loop with the time and timers of a `ShiftedClock`; what it has besides is that of the real loop."""

    def __init__(self, clock: ShiftedClock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self.call_soon = loop.call_soon  # type: ignore[method-assign]
        self.create_future = loop.create_future  # type: ignore[method-assign]
        self.create_task = loop.create_task  # type: ignore[method-assign]
        self.run_in_executor = loop.run_in_executor  # type: ignore[method-assign]
        self.call_exception_handler = loop.call_exception_handler  # type: ignore[method-assign]

    def time(self) -> float:
        """Return the clock's time in seconds."""
        return self._clock.time()

    def call_at(
        self, when: float, callback: Callable[[Unpack[A]], object], *args: *A, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call `callback` at the clock's time `when`."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._clock.call_at(when, handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[Unpack[A]], object], *args: *A, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call `callback` once the clock has advanced by `delay` seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def get_debug(self) -> bool:
        """Return False: its handles keep no tracebacks."""
        return False

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        """Do nothing: the clock drops cancelled timers when they are due."""
