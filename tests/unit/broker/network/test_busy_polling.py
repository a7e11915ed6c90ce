from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from broker.monitoring.counters import Metrics
from broker.network.busy_polling import LINGER_S, MIN_HITS, MIN_HITS_IF_PREEMPTED, SMALL_BYTES, BusyPolling

TURN_S = LINGER_S / 10


class FakeLoop:
    """A fake loop that a test steps: an iteration lasts `TURN_S`; without callbacks the loop would sleep."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self._soon: list[Callable[[], object]] = []

    def time(self) -> float:
        return self.now_s

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._soon.append(callback)

    @property
    def awake(self) -> bool:
        return bool(self._soon)

    def turn(self) -> None:
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()
        self.now_s += TURN_S

    def iterations_until_sleep(self) -> int:
        count = 0
        while self.awake:
            self.turn()
            count += 1
        return count


class Machine:
    """A broker with a fake loop and metrics; `others` runs when the CPU is yielded."""

    def __init__(self, *, clocked: bool = True) -> None:
        self.loop = FakeLoop()
        self.metrics = Metrics()
        self.others: Callable[[Machine], None] = lambda _: None
        loop: Any = self.loop
        self.busy_polling = BusyPolling(
            loop, self.metrics, self.loop.time if clocked else None, lambda: self.others(self)
        )

    def request(self) -> None:
        """Receive a request as `ConnectionProtocol` does."""
        self.metrics.received_bytes += 100
        if self.loop.time() >= self.busy_polling.due:
            self.busy_polling.begin()

    def pause_s(self, followed_by: int = 0) -> float:
        """Receive a request and `followed_by` others in time; return the pause before the next polling in seconds."""
        self.loop.now_s = max(self.loop.now_s, self.busy_polling.due)
        for _ in range(1 + followed_by):
            self.request()
            self.loop.turn()
        self.loop.iterations_until_sleep()
        return self.busy_polling.due - self.loop.time()


def test_without_a_request_nothing_keeps_the_loop_awake() -> None:
    assert not Machine().loop.awake


def test_without_a_clock_no_request_keeps_the_loop_awake() -> None:
    machine = Machine(clocked=False)
    machine.request()
    assert not machine.loop.awake


def test_loop_stays_awake_for_a_bounded_time_after_a_request() -> None:
    machine = Machine()
    machine.request()
    assert machine.loop.iterations_until_sleep() * TURN_S == pytest.approx(LINGER_S, rel=0.2)


def test_each_request_in_time_extends_polling() -> None:
    machine = Machine()
    for _ in range(100):
        machine.request()
        for _ in range(8):
            machine.loop.turn()
            assert machine.loop.awake
    assert machine.loop.iterations_until_sleep() <= 12


def test_pauses_grow_to_a_limit_without_requests() -> None:
    machine = Machine()
    pauses = [machine.pause_s() for _ in range(12)]
    assert pauses[0] < 0.002
    assert all(later >= earlier for earlier, later in pairwise(pauses))
    assert 0.1 < pauses[-2] == pytest.approx(pauses[-1])


def test_request_during_a_pause_starts_no_polling() -> None:
    machine = Machine()
    machine.pause_s()
    machine.request()
    assert not machine.loop.awake


def test_enough_requests_in_time_reset_the_pause() -> None:
    machine = Machine()
    longest = [machine.pause_s() for _ in range(10)][-1]
    assert machine.pause_s(followed_by=MIN_HITS) < longest / 50


def test_too_few_requests_in_time_lengthen_the_pause() -> None:
    machine = Machine()
    pauses = [machine.pause_s(followed_by=MIN_HITS - 1) for _ in range(12)]
    assert pauses[-1] > 50 * pauses[0]


def test_large_reads_stop_polling() -> None:
    machine = Machine()
    machine.request()
    for _ in range(8):
        machine.loop.turn()
    machine.metrics.received_bytes += SMALL_BYTES + 1
    assert machine.loop.iterations_until_sleep() < 5


def others_run(machine: Machine) -> None:
    machine.loop.now_s += 0.003


def test_polling_stops_if_other_processes_need_the_cpu() -> None:
    machine = Machine()
    machine.others = others_run
    machine.request()
    assert machine.loop.iterations_until_sleep() == 1


@pytest.mark.parametrize(
    ("requests", "tried_again_soon"), [(MIN_HITS_IF_PREEMPTED // 2, False), (MIN_HITS_IF_PREEMPTED, True)]
)
def test_polling_needs_more_requests_to_pay_if_it_yields_the_cpu(requests: int, tried_again_soon: bool) -> None:
    machine = Machine()
    longest = [machine.pause_s() for _ in range(10)][-1]
    machine.loop.now_s = machine.busy_polling.due
    for _ in range(1 + requests):
        machine.request()
        machine.loop.turn()
    machine.others = others_run
    machine.loop.iterations_until_sleep()
    assert (machine.busy_polling.due - machine.loop.time() < longest / 50) is tried_again_soon


def test_loop_sleeps_after_a_connection_is_served(run: Any, serving: Any) -> None:
    async def body() -> None:
        async with serving() as served:
            client = await served.connect()
            for _ in range(100):
                client.send(b"one")
                assert await client.receive() == b"one"
            busy_polling = served.server.busy_polling
            while busy_polling.due == float("inf"):  # noqa: ASYNC110 - the condition has no event
                await asyncio.sleep(0)

    run(body())
