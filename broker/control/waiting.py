"""Waits: a condition, evaluated again after each event that can change it, until it is met or the time is over.

A source of events is a function: it subscribes a callback and returns the function that unsubscribes it. There is no
polling, and an event that nothing waits for costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from broker.control.bodies import NumberRange

if TYPE_CHECKING:
    from broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
    from broker.metadata.raft_driver import RaftDriver
    from broker.runtime.purgatory import Purgatory

Callback: TypeAlias = Callable[..., object]
Source: TypeAlias = Callable[[Callback], Callback]

DEFAULT_TIMEOUT_MS = 10_000
TimeoutMs: TypeAlias = Annotated[int, NumberRange(0, 600_000)]
"""How long a request may wait."""


class Event:
    """Something that happens again and again; calls back its subscribers."""

    __slots__ = ("_callbacks",)

    def __init__(self) -> None:
        self._callbacks: dict[Callback, None] = {}

    def source(self, callback: Callback) -> Callback:
        """Call `callback` each time, until the returned function is called."""
        self._callbacks[callback] = None
        return lambda: self._callbacks.pop(callback, None)

    def fire(self, *values: object) -> None:
        """Call back the subscribers, with what the event is about."""
        for callback in tuple(self._callbacks):
            callback(*values)


def metadata_changes(raft: RaftDriver) -> Source:
    """Return the source of changes of the metadata, after every part of this broker has applied them."""

    def subscribe(callback: Callback) -> Callback:
        def apply(*_: object) -> None:
            callback()

        raft.subscribe(apply)
        return lambda: raft.unsubscribe(apply)

    return subscribe


def coordinator_changes(runtime: CoordinatorRuntime[Any, Any]) -> Source:
    """Return the source of changes of a coordinator's shards."""

    def subscribe(callback: Callback) -> Callback:
        runtime.subscribe(callback)
        return lambda: runtime.unsubscribe(callback)

    return subscribe


class _KeyWatcher:
    """A watcher of keys of a purgatory."""

    def __init__(self, callback: Callback) -> None:
        self._callback = callback

    def woken(self, key: Hashable, size_bytes: int) -> None:
        """Do nothing yet."""

    def act(self) -> None:
        """Call back."""
        self._callback()


def key_events(purgatory: Purgatory, keys: Iterable[Hashable]) -> Source:
    """Return the source of the events on keys of the purgatory: partitions, and their logs."""

    def subscribe(callback: Callback) -> Callback:
        watcher, watched = _KeyWatcher(callback), tuple(keys)
        for key in watched:
            purgatory.watch(key, watcher)

        def unsubscribe() -> None:
            for key in watched:
                purgatory.unwatch(key, watcher)

        return unsubscribe

    return subscribe


async def until(is_met: Callable[[], bool | Awaitable[bool]], sources: Iterable[Source], timeout_ms: int) -> bool:
    """Return True once `is_met()`, which is called now and after events of `sources`; False after `timeout_ms`."""
    changed = asyncio.Event()
    with ExitStack() as subscriptions:
        for subscribe in sources:
            subscriptions.callback(subscribe(changed.set))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    changed.clear()
                    found = is_met()
                    if found if isinstance(found, bool) else await found:
                        return True
                    await asyncio.sleep(0)  # an evaluation that causes an event itself must not hold the loop
                    await changed.wait()
        except TimeoutError:
            return False


def wait_result(met: bool, wanted: str, timeout_ms: int, seen: Mapping[str, object], seen_text: str) -> dict[str, Any]:
    """Return the response to a wait for `wanted`; its message says what was seen instead."""
    message = f"{wanted}: yes" if met else f"{wanted}: not within {timeout_ms / 1000:g} s; {seen_text}"
    return {"met": met, "message": message, "seen": seen}
