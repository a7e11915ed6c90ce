"""Waits: evaluated at the beginning and after events, until met or too late."""

from __future__ import annotations

import asyncio
from typing import Any

from broker.control.waiting import Event, until, wait_result


def run(work: Any) -> Any:
    return asyncio.run(asyncio.wait_for(work, 10))


def test_what_holds_already_is_met_at_once() -> None:
    assert run(until(lambda: True, [], 0)) is True


def test_a_condition_is_evaluated_after_each_event_and_not_otherwise() -> None:
    evaluated: list[int] = []

    async def body() -> bool:
        event = Event()

        def is_met() -> bool:
            evaluated.append(len(evaluated))
            return len(evaluated) == 3

        waiting = asyncio.ensure_future(until(is_met, [event.source], 5_000))
        for _ in range(2):
            for _ in range(5):
                await asyncio.sleep(0)
            event.fire()
            event.fire()
        return await waiting

    assert run(body()) is True
    assert evaluated == [0, 1, 2]


def test_an_event_during_the_evaluation_is_not_lost() -> None:
    async def body() -> bool:
        event, state = Event(), {"is_set": False}

        async def is_met() -> bool:
            found = state["is_set"]
            if not found:
                state["is_set"] = True
                event.fire()
            return found

        return await until(is_met, [event.source], 5_000)

    assert run(body()) is True


def test_a_wait_ends_at_its_time_and_unsubscribes() -> None:
    event = Event()
    assert run(until(lambda: False, [event.source], 10)) is False
    assert not event._callbacks


def test_the_result_says_what_was_waited_for_and_what_was_seen() -> None:
    assert wait_result(True, "x is there", 100, {"a": 1}, "y")["message"] == "x is there: yes"
    assert wait_result(False, "x is there", 1500, {"a": 1}, "y is") == {
        "met": False,
        "message": "x is there: not within 1.5 s; y is",
        "seen": {"a": 1},
    }
