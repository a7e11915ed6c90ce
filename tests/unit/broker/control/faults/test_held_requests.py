from __future__ import annotations

import asyncio

from broker.control.faults.held_requests import HeldRequests
from broker.network.connection import Connection
from broker.runtime.deferred import Deferred


def connections(count: int) -> list[Connection]:
    return [Connection(number, "PLAINTEXT", "127.0.0.1") for number in range(count)]


def test_the_oldest_requests_are_released_first() -> None:
    held, loop = HeldRequests(), asyncio.new_event_loop()
    gates: list[Deferred[None]] = [held.hold(1, one, loop) for one in connections(3)]
    other = held.hold(2, connections(1)[0], loop)
    assert held.release(1, 2) == 2
    assert [gate.done() for gate in gates] == [True, True, False]
    assert (held.count(1), held.count(2)) == (1, 1)
    held.release_all()
    assert gates[2].done()
    assert other.done()
    assert held.release(1) == 0
    loop.close()


def test_requests_of_closed_connections_do_not_count() -> None:
    held, loop = HeldRequests(), asyncio.new_event_loop()
    closed, open_ = connections(2)
    for connection in (closed, open_):
        held.hold(1, connection, loop)
    closed.close()
    assert held.count(1) == 1
    assert held.release(1, 1) == 1
    assert held.count(1) == 0
    loop.close()
