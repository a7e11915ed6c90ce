"""Views for asyncio: each method that waits is a coroutine, which leaves the event loop free.

    async with Cluster(brokers=3) as cluster:
        orders = await cluster.topic(partitions=3)

`Cluster.aio` is such a view of a cluster that runs already, such as a fixture's. `AsyncCluster` is in `cluster.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from barnabas.testing.broker import Broker
from barnabas.testing.clock import Clock
from barnabas.testing.group import Group
from barnabas.testing.topic import Topic

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")


async def in_thread(call: Callable[[], R]) -> R:
    """Return the result of a call in a thread of its own.

    Unlike those of the loop's executor, the thread does not delay the end of the loop if the waiting task is cancelled.
    """
    import asyncio  # here, since its import takes longer than that of the rest of this package

    loop = asyncio.get_running_loop()
    result: asyncio.Future[R] = loop.create_future()

    def returned(value: R) -> None:
        if not result.done():
            result.set_result(value)

    def raised(error: BaseException) -> None:
        if not result.done():
            result.set_exception(error)

    def run() -> None:
        outcome: Callable[[], None]
        try:
            outcome = partial(returned, call())
        except BaseException as error:
            outcome = partial(raised, error)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(outcome)

    threading.Thread(target=run, daemon=True, name="barnabas-testing").start()
    return await result


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


class AsyncBroker(View[Broker]):
    """A `Broker`. `sync` has its addresses, state and log."""

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
