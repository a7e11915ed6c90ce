"""Requests and responses that wait: until a test releases them or deletes the rule, or for a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.runtime.deferred import Deferred

if TYPE_CHECKING:
    import asyncio

    from broker.network.connection import Connection


class HeldRequests:
    """The gates of held requests, by rule, in the order of their arrival."""

    def __init__(self) -> None:
        self._gates: dict[int, list[tuple[Connection, Deferred[None]]]] = {}
        self._timed: dict[Deferred[None], asyncio.TimerHandle] = {}

    def hold(self, rule_id: int, connection: Connection, loop: asyncio.AbstractEventLoop) -> Deferred[None]:
        """Return the gate of a request that a rule holds."""
        gate: Deferred[None] = Deferred(loop)
        self._gates.setdefault(rule_id, []).append((connection, gate))
        return gate

    def delay(self, seconds: float, loop: asyncio.AbstractEventLoop) -> Deferred[None]:
        """Return the gate of a request that waits for so many seconds, or until all requests are released."""
        gate: Deferred[None] = Deferred(loop)
        self._timed[gate] = loop.call_later(seconds, self._end_delay, gate)
        return gate

    def _end_delay(self, gate: Deferred[None]) -> None:
        self._timed.pop(gate).cancel()
        gate.answer(None)

    def count(self, rule_id: int) -> int:
        """Return the number of requests that a rule holds, of connections that are open."""
        return sum(not connection.closed for connection, _ in self._gates.get(rule_id, ()))

    def release(self, rule_id: int, count: int | None = None) -> int:
        """Release the first `count` requests that a rule holds, or all; return how many were released."""
        waiting = [one for one in self._gates.pop(rule_id, []) if not one[0].closed]
        released, left = (waiting, []) if count is None else (waiting[:count], waiting[count:])
        if left:
            self._gates[rule_id] = left
        for _, gate in released:
            gate.answer(None)
        return len(released)

    def release_all(self) -> None:
        """Release every request."""
        for rule_id in tuple(self._gates):
            self.release(rule_id)
        for gate in tuple(self._timed):
            self._end_delay(gate)
