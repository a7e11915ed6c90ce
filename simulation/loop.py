"""Virtual time: one asyncio event loop per simulated process, all driven by a seed through one common schedule.

Theory of operation. A `Schedule` has the time, the timers of all loops, and the loops with ready callbacks. The seed
chooses one of these for the next turn: all callbacks that are ready at the start of the turn run in order, as in
asyncio. The seed decides everything that asyncio leaves open: which loop is next, which of two timers due at the same
time is first, how long a thread takes, and what happens in the loop between two disk operations of a thread. Each loop
has its own monotonic clock, which may run slower or faster than time. Each callback takes `_EVENT_S` plus its disk
delay; if none is ready, time jumps to the next timer. So hours pass in seconds, and the same seed repeats the same run.

    die       all ready callbacks, timers, threads and tasks of the loop are gone at once, as after kill -9
    pause     no callback of the loop runs until it is resumed, as after SIGSTOP; timers are late then

Every callback is an *event*: it is counted, hashed into the `Trace` together with network and disk operations, and
followed by `after_event`, which checks invariants. `Stuck`: no further event can occur. `Exhausted`: the allowed number
of events has passed.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio import events as asyncio_events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from hashlib import blake2b
from heapq import heappop, heappush
from inspect import CORO_CREATED, getcoroutinelocals, getcoroutinestate, iscoroutine
from random import Random
from struct import Struct
from threading import Lock, Thread, current_thread, local
from typing import Any, Protocol, TypeVar

from simulation.violation import Invariant, Violation

T = TypeVar("T")
L = TypeVar("L", bound="Loop")

_EVENT_S = 2e-6
_EVENT = Struct("<dH")


class Stuck(Violation):
    """A task waits, and no further event can occur."""


class Exhausted(Violation):
    """A task still waits after the allowed number of events."""


class LoopNetwork(Protocol):
    """What a loop uses of the network (`network.py`)."""

    def resolve(self, host: str) -> str:
        """Return the address of a host."""

    def listen(self, loop: Loop, factory: Callable[[], Any], host: str, port: int, *, serve: bool) -> Any:
        """Return a server of `loop`."""

    async def connect(self, loop: Loop, factory: Callable[[], Any], host: str, port: int) -> Any:
        """Return the transport and the protocol of a connection of `loop`."""


class Trace:
    """A hash of all events, in order."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=8)
        self.note = self._hash.update

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


class Handle:
    """A scheduled callback, as `asyncio.TimerHandle`, at half the cost of creating and running one."""

    __slots__ = ("args", "callback", "context", "when_s")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None, when_s: float = 0.0
    ) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = copy_context() if context is None else context
        self.when_s = when_s
        """The time from which it may run, by the clock of its loop."""

    def cancel(self) -> None:
        """Cancel it, and drop its references."""
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.when_s


class Schedule:
    """The current time and all pending events."""

    def __init__(self, random: Random, trace: Trace) -> None:
        self.random = random
        self.trace = trace
        self.now = 0.0
        self.events = 0
        self.most_events: float = float("inf")
        self.after_event: Callable[[Loop], None] = lambda loop: None
        self.network: LoopNetwork | None = None
        self.loops: list[Loop] = []
        self.keeper: Loop | None = None
        """The loop whose timers end the other loops' waits."""
        self._timers: list[tuple[float, float, int, Handle, Loop]] = []
        self._timer_number = 0
        self._runnable: list[Loop] = []
        self._running: Loop | None = None
        self._bits = random.getrandbits

    def loop(self, name: str) -> Loop:
        """Return a loop for a new process; `name` is its host's name."""
        return self.add(Loop(self, name, len(self.loops)))  # type: ignore[abstract]  # only what brokers and clients use

    def add(self, loop: L) -> L:
        """Include a loop in the schedule; its index is the number of loops before it."""
        self.loops.append(loop)
        return loop

    def run(self, loop: Loop, work: Coroutine[Any, Any, T]) -> T:
        """Advance time until `work`, a task of `loop`, is done; return its result."""
        task = loop.create_task(work)
        try:
            while not task.done():
                self._turn()
        finally:
            self._running = None
            asyncio_events._set_running_loop(None)
        result: T = task.result()
        return result

    def add_timer(self, handle: Handle, loop: Loop) -> None:
        self._timer_number += 1
        due_s = (handle.when_s - loop.origin_s) / loop.rate
        heappush(self._timers, (due_s, self.random.random(), self._timer_number, handle, loop))

    def add_runnable(self, loop: Loop) -> None:
        self._runnable.append(loop)

    def remove_runnable(self, loop: Loop) -> None:
        """Give `loop` no turn, however often it is listed."""
        self._runnable[:] = [other for other in self._runnable if other is not loop]

    def _turn(self) -> None:
        timers, runnable = self._timers, self._runnable
        if not runnable and timers and timers[0][0] > self.now:
            self.now = timers[0][0]
        while timers and timers[0][0] <= self.now:
            _, _, _, handle, loop = heappop(timers)
            if handle.callback is not None:
                loop.due(handle)
        if runnable:
            count = len(runnable)
            at = 0 if count == 1 else count
            while at >= count:  # as `Random.choice`, at half the cost
                at = self._bits(count.bit_length())
            loop = runnable[at]
            if loop.ready:
                self._run(loop)
            if not loop.ready and loop in runnable:
                runnable.remove(loop)
        elif not timers:
            raise Stuck(Invariant.PROGRESS, f"nothing is left to happen at {self.now:.6f} s")

    def _run(self, loop: Loop) -> None:
        """Run the ready callbacks of `loop`."""
        ready, note, after_event, index = loop.ready, self.trace.note, self.after_event, loop.index
        if loop is not self._running:
            self._running = loop
            asyncio_events._set_running_loop(loop)
        for _ in range(len(ready)):
            if not ready or loop.paused:  # a callback ended or paused it
                break
            handle = ready.popleft()
            callback = handle.callback
            if callback is None:
                continue
            self.now += _EVENT_S
            self.events += 1
            note(_EVENT.pack(self.now, index))
            try:
                handle.context.run(callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                message = f"Exception in callback {callback!r}"
                loop.call_exception_handler({"message": message, "exception": error, "handle": handle})
            after_event(loop)
            if (waits_s := loop.disk_waits_s()) > 0:
                loop.stall(waits_s)
            if self.events >= self.most_events:
                raise Exhausted(Invariant.PROGRESS, f"{self.events} events have passed at {self.now:.6f} s")


class Loop(asyncio.AbstractEventLoop):
    """The event loop of one process."""

    def __init__(self, schedule: Schedule, host: str, index: int) -> None:
        self.schedule = schedule
        self.host = host
        self.index = index
        self.ready: deque[Handle] = deque()
        self.dead = False
        self.paused = False
        """Whether nothing runs now: the process is stopped, or waits for the disk."""
        self._stopped, self._stalls = False, 0
        self.on_exception: Callable[[dict[str, Any]], None] | None = None
        self.on_read: Callable[[], None] | None = None
        """Called after each read from a connection."""
        self._buried: list[asyncio.Task[Any]] = []
        self.disk_waits_s: Callable[[], float] = lambda: 0.0
        """Return the total disk delay of the calls since the last one."""
        self.threads_s = (1e-5, 1e-3)
        """The shortest and the usual delay before a thread starts, and again before its result arrives."""
        self.stepped_share = 0.0
        """The share of thread calls whose disk operations interleave with events of the loop."""
        self.origin_s, self.rate = 0.0, 1.0
        """The monotonic clock: its value at time 0, and its rate."""
        self._workers: set[Worker] = set()
        self._worker_number = 0

    def __repr__(self) -> str:
        return f"<Loop {self.index} of {self.host}>"

    # The process

    def die(self) -> None:
        """End the process: none of its callbacks runs any more."""
        self.dead = True
        # Keep the tasks as long as the loop: a collected task runs the rest of its `finally`.
        self._buried = list(asyncio.all_tasks(self))
        self.ready.clear()  # perhaps the only reference to a task that has not started
        for worker in sorted(self._workers, key=lambda worker: worker.number):
            worker.end()
        self.schedule.remove_runnable(self)
        for task in self._buried:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            if iscoroutine(coroutine):
                _close_unstarted(coroutine)

    def pause(self) -> None:
        """Run no callback of this process until `resume`."""
        self._stopped = self.paused = True
        self.schedule.remove_runnable(self)

    def resume(self) -> None:
        """Continue after `pause`."""
        if self._stopped:
            self._stopped = False
            self._go_on()

    def stall(self, wait_s: float) -> None:
        """Run no callback of this process for `wait_s`: a call in it waits for the disk."""
        keeper = self.schedule.keeper
        if not self.dead and keeper is not None:
            self._stalls += 1
            self.paused = True
            self.schedule.remove_runnable(self)
            keeper.call_later(wait_s, self._end_stall)

    def _end_stall(self) -> None:
        self._stalls -= 1
        self._go_on()

    def _go_on(self) -> None:
        self.paused = self._stopped or self._stalls > 0
        if self.ready and not (self.paused or self.dead):
            self.schedule.add_runnable(self)

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """Return the unfinished tasks, sorted by name."""
        return sorted(asyncio.all_tasks(self), key=lambda task: task.get_name())

    def due(self, handle: Handle) -> None:
        """Move a due callback to the next turn."""
        if self.dead:
            return
        if not self.ready and not self.paused:
            self.schedule.add_runnable(self)
        self.ready.append(handle)

    # The asyncio interface

    def time(self) -> float:
        return self.origin_s + self.schedule.now * self.rate

    def is_running(self) -> bool:
        return asyncio_events._get_running_loop() is self

    def is_closed(self) -> bool:
        return self.dead

    def get_debug(self) -> bool:
        return False

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:  # type: ignore[override]
        handle = Handle(callback, args, context)
        self.due(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle(callback, args, context, self.time() + delay)
        if not self.dead:
            self.schedule.add_timer(handle, self)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle(callback, args, context, when)
        if not self.dead:
            self.schedule.add_timer(handle, self)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Run `func` at a time that the seed chooses, and deliver its result at a later one."""
        future: asyncio.Future[T] = self.create_future()
        self.call_later(self._thread_s(), self._work, future, func, args)
        return future

    def _thread_s(self) -> float:
        shortest, usual = self.threads_s
        return shortest + self.schedule.random.expovariate(1 / usual)

    def _work(self, future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if self.stepped_share and self.schedule.random.random() < self.stepped_share:
            self._worker_number += 1
            self._step(Worker(partial(func, *args), self._worker_number), future)
            return
        try:
            result, error = func(*args), None
        except Exception as raised:
            result, error = None, raised
        self.call_later(self._thread_s() + self.disk_waits_s(), _settle, future, result, error)

    def _step(self, worker: Worker, future: asyncio.Future[Any]) -> None:
        """Run a thread up to its next disk operation, or to its end."""
        self._workers.add(worker)
        ended = worker.step()
        if self.dead:
            return
        wait_s = self._thread_s() + self.disk_waits_s()
        if ended:
            self._workers.discard(worker)
            self.call_later(wait_s, _settle, future, worker.result, worker.error)
        else:
            self.call_later(wait_s, self._step, worker, future)

    def set_exception_handler(self, handler: Any) -> None:
        raise NotImplementedError("the maker of the loop sets on_exception")

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.dead and self.on_exception is not None:
            self.on_exception(context)

    # The network: see `network.py`

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        address = self._network.resolve(host or self.host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        return self._network.listen(self, protocol_factory, host, port, serve=options.get("start_serving", True))

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return await self._network.connect(self, protocol_factory, host, port)

    @property
    def _network(self) -> LoopNetwork:
        if self.schedule.network is None:
            raise OSError("no network")
        return self.schedule.network


class Ended(BaseException):
    """The process has died: raised in running code, which has no effect any more."""


class Worker:
    """A thread of a process that runs only while the schedule waits for it, from one disk operation to the next."""

    _here = local()

    def __init__(self, function: Callable[[], Any], number: int) -> None:
        self.number = number
        self.result: Any = None
        self.error: Exception | None = None
        self._function = function
        self._go_on, self._paused = Lock(), Lock()  # each is released by one thread, and acquired by the other
        self._go_on.acquire()
        self._paused.acquire()
        self._done = self._killed = False
        self._thread: Thread | None = None

    @classmethod
    def yield_point(cls) -> None:
        """Yield to the schedule before a disk operation; raise `Ended` if the process died meanwhile.

        Do nothing outside a worker.
        """
        worker: Worker | None = getattr(cls._here, "worker", None)
        if worker is not None:
            if not worker._killed:
                worker._paused.release()
                worker._go_on.acquire()
            if worker._killed:
                raise Ended

    @classmethod
    def is_here(cls) -> bool:
        """Return whether the caller runs in such a thread."""
        return getattr(cls._here, "worker", None) is not None

    def step(self) -> bool:
        """Run up to the next disk operation; return whether the function has ended."""
        if self._thread is None:
            self._thread = Thread(target=self._run, daemon=True)
            self._thread.start()
        else:
            self._go_on.release()
        self._paused.acquire()
        return self._done

    def end(self) -> None:
        """End the thread without any further effect of the function."""
        self._killed = True
        if self._thread is not None and self._thread is not current_thread() and not self._done:
            self.step()

    def _run(self) -> None:
        self._here.worker = self
        try:
            self.result = self._function()
        except Ended:
            self.result = None
        except Exception as error:
            self.error = error
        self._done = True
        self._paused.release()


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def _close_unstarted(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Close a coroutine that never started, and those it would await, to avoid "never awaited" warnings."""
    if getcoroutinestate(coroutine) == CORO_CREATED:
        for argument in getcoroutinelocals(coroutine).values():
            if iscoroutine(argument):
                _close_unstarted(argument)
        coroutine.close()
