"""Views for asyncio: each method that waits is a coroutine, which leaves the event loop free.

    async with Cluster(brokers=3) as cluster:
        orders = await cluster.topic(partitions=3)

`Cluster.aio` is such a view of a cluster that runs already, such as a fixture's. `AsyncCluster` is in `cluster.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Generator
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from barnabas.testing.broker import Broker
from barnabas.testing.clock import Clock
from barnabas.testing.disturbance import BrokerDisk, BrokerNetwork, Disturbance
from barnabas.testing.fault import Fault
from barnabas.testing.group import Group
from barnabas.testing.topic import Topic

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")


async def in_thread(call: Callable[[], R], undo: Callable[[], object] | None = None) -> R:
    """Return the result of a call in a thread of its own.

    Unlike those of the loop's executor, the thread does not delay the end of the loop if the waiting task is cancelled.
    `undo` is called, in a thread too, if the call succeeds after that.
    """
    import asyncio  # here, since its import takes longer than that of the rest of this package

    loop = asyncio.get_running_loop()
    result: asyncio.Future[R] = loop.create_future()

    def returned(value: R) -> None:
        if not result.done():
            result.set_result(value)
        elif undo is not None:
            _thread(undo)

    def raised(error: BaseException) -> None:
        if not result.done():
            result.set_exception(error)

    def run() -> None:
        outcome: Callable[[], None]
        succeeded = False
        try:
            outcome = partial(returned, call())
            succeeded = True
        except BaseException as error:
            outcome = partial(raised, error)
        try:
            loop.call_soon_threadsafe(outcome)
        except RuntimeError:  # the loop is closed
            if succeeded and undo is not None:
                undo()

    _thread(run)
    return await result


def _thread(run: Callable[[], object]) -> None:
    threading.Thread(target=run, daemon=True, name="barnabas-testing").start()


def coroutine(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return `method` of the viewed object as a coroutine."""

    @wraps(method)
    async def call(view: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await in_thread(partial(method, view.sync, *args, **kwargs))

    return call


def coroutine_to(
    result: Callable[[R], V], method: Callable[Concatenate[Any, P], R]
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, V]]:
    """Return `method` of the viewed object as a coroutine that returns a view of its result."""

    @wraps(method)
    async def call(view: Any, /, *args: P.args, **kwargs: P.kwargs) -> V:
        return result(await in_thread(partial(method, view.sync, *args, **kwargs)))

    return call


class View(Generic[R]):
    """A view of one object of the test kit."""

    def __init__(self, sync: R) -> None:
        """View `sync`, whose own methods block."""
        self.sync = sync

    def __repr__(self) -> str:
        return f"<async {self.sync!r}>"


class Lasting(Generic[R, V]):
    """What begins when it is awaited, or as a block of `async with`, at whose end it is ended."""

    def __init__(self, begin: Callable[[], R], view: Callable[[R], V], end: Callable[[R], object]) -> None:
        """`begin` begins it; what is awaited is a `view` of its result, which `end` ends."""
        self._begin = begin
        self._view = view
        self._end = end
        self._begun: R | None = None

    def __await__(self) -> Generator[Any, Any, V]:
        return self._started().__await__()

    async def _started(self) -> V:
        self._begun = begun = await in_thread(self._begin)
        return self._view(begun)

    async def __aenter__(self) -> V:
        return await self._started()

    async def __aexit__(self, *_: object) -> None:
        if self._begun is not None:
            await in_thread(partial(self._end, self._begun))


def _disturbing(
    method: Callable[Concatenate[Any, P], Disturbance],
) -> Callable[Concatenate[Any, P], Lasting[Disturbance, AsyncDisturbance]]:
    """Return `method` of the viewed disk or network as one whose result is awaited, or used with `async with`."""

    @wraps(method)
    def call(view: Any, /, *args: P.args, **kwargs: P.kwargs) -> Lasting[Disturbance, AsyncDisturbance]:
        begin = partial(method, view.sync, *args, **kwargs)
        return Lasting(begin, AsyncDisturbance, lambda disturbance: disturbance.heal())

    return call


class AsyncDisturbance(View[Disturbance]):
    """A `Disturbance`."""

    async def heal(self) -> None:
        """End it."""
        await in_thread(self.sync.heal)


class AsyncDisk(View[BrokerDisk]):
    """A `BrokerDisk`. Its disturbances are awaited, or blocks: `async with broker.disk.slow(0.05): ...`."""

    slow = _disturbing(BrokerDisk.slow)
    full = _disturbing(BrokerDisk.full)
    fail = _disturbing(BrokerDisk.fail)
    heal = coroutine(BrokerDisk.heal)


class AsyncNetwork(View[BrokerNetwork]):
    """A `BrokerNetwork`. A cut is awaited, or a block: `async with broker.network.cut_off(): ...`."""

    cut_off = _disturbing(BrokerNetwork.cut_off)
    heal = coroutine(BrokerNetwork.heal)


class AsyncFault(View[Fault]):
    """A `Fault`. `sync.hits` and `sync.matches` are requests to the brokers, which block."""

    wait = coroutine(Fault.wait)
    release = coroutine(Fault.release)
    remove = coroutine(Fault.remove)


class AsyncBroker(View[Broker]):
    """A `Broker`. `sync` has its addresses, state and log."""

    @property
    def node_id(self) -> int:
        """The broker's id in the cluster, from 1."""
        return self.sync.node_id

    @property
    def disk(self) -> AsyncDisk:
        """Its disk, which can be slow, full or broken."""
        return AsyncDisk(self.sync.disk)

    @property
    def network(self) -> AsyncNetwork:
        """Its network, from which it can be cut off."""
        return AsyncNetwork(self.sync.network)

    start = coroutine(Broker.start)
    stop = coroutine(Broker.stop)
    kill = coroutine(Broker.kill)
    restart = coroutine(Broker.restart)
    pause = coroutine(Broker.pause)
    resume = coroutine(Broker.resume)


class AsyncClock(View[Clock]):
    """A `Clock`. `sync` has its time."""

    advance = coroutine(Clock.advance)


class AsyncTopic(View[Topic]):
    """A `Topic`."""

    @property
    def name(self) -> str:
        """The name."""
        return self.sync.name

    def __str__(self) -> str:
        return self.sync.name

    describe = coroutine(Topic.describe)
    leader = coroutine_to(AsyncBroker, Topic.leader)
    delete = coroutine(Topic.delete)
    wait_exists = coroutine(Topic.wait_exists)
    move_leader = coroutine(Topic.move_leader)
    produce = coroutine(Topic.produce)
    records = coroutine(Topic.records)
    expect = coroutine(Topic.expect)


class AsyncGroup(View[Group]):
    """A `Group`."""

    @property
    def name(self) -> str:
        """The name."""
        return self.sync.name

    def __str__(self) -> str:
        return self.sync.name

    describe = coroutine(Group.describe)
    wait_stable = coroutine(Group.wait_stable)
    wait_empty = coroutine(Group.wait_empty)
    expect_lag = coroutine(Group.expect_lag)
    rebalance = coroutine(Group.rebalance)
    expire = coroutine(Group.expire)
