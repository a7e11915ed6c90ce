"""Suspected leaders: which requests wait after a leader's connection broke, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.metadata.suspected_leaders import SuspectedLeaders
from tests.unit.broker.metadata.test_recently_fenced import image
from tests.unit.broker.node import VirtualLoop

PATIENCE_S = 0.5


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop()
    yield made
    made.close()


@pytest.fixture
def suspects(loop: VirtualLoop) -> SuspectedLeaders:
    return SuspectedLeaders(loop, PATIENCE_S)


def waited_s(loop: VirtualLoop, suspects: SuspectedLeaders, node_ids: set[int], event: Callable[[], object]) -> float:
    """Return the wait in s until these brokers are resolved, if `event` happens after 0.1 s."""

    async def wait() -> float:
        loop.call_later(0.1, event)
        begin = loop.time()
        await suspects.until_resolved(node_ids)
        return round(loop.time() - begin, 3)

    return loop.run_until_complete(wait())


def test_unsuspected_leader_is_not_waited_for(loop: VirtualLoop, suspects: SuspectedLeaders) -> None:
    suspects.lost(2)
    assert waited_s(loop, suspects, {3}, lambda: None) == 0


def test_wait_ends_when_suspect_is_reached(loop: VirtualLoop, suspects: SuspectedLeaders) -> None:
    suspects.lost(2)
    assert waited_s(loop, suspects, {2}, lambda: suspects.reached(2)) == 0.1
    assert not suspects.ids


@pytest.mark.parametrize("became", [{"b1": "active", "b2": "fenced"}, {"b1": "active"}, {"b2": "stopping"}])
def test_wait_ends_when_controller_has_fenced_suspect(
    loop: VirtualLoop, suspects: SuspectedLeaders, became: dict[str, Any]
) -> None:
    suspects.lost(2)
    assert waited_s(loop, suspects, {2}, lambda: suspects.drop_inactive(image(**became))) == 0.1


def test_active_broker_stays_suspected(suspects: SuspectedLeaders) -> None:
    suspects.lost(2)
    suspects.drop_inactive(image(b2="active"))
    assert suspects.ids == {2}


def test_wait_for_two_suspects_ends_when_both_are_resolved(loop: VirtualLoop, suspects: SuspectedLeaders) -> None:
    suspects.lost(2)
    suspects.lost(3)
    assert waited_s(loop, suspects, {2, 3}, lambda: suspects.reached(2)) == PATIENCE_S


def test_wait_is_bounded_from_time_of_loss(loop: VirtualLoop, suspects: SuspectedLeaders) -> None:
    suspects.lost(2)
    loop.run_until_complete(asyncio.sleep(0.2))
    assert waited_s(loop, suspects, {2}, lambda: None) == PATIENCE_S - 0.2
    assert not suspects.ids


def test_repeated_loss_does_not_extend_wait(loop: VirtualLoop, suspects: SuspectedLeaders) -> None:
    suspects.lost(2)
    loop.call_later(0.4, suspects.reached, 3)
    assert waited_s(loop, suspects, {2}, lambda: suspects.lost(2)) == PATIENCE_S


def test_cancelled_wait_leaves_other_waits(loop: VirtualLoop, suspects: SuspectedLeaders) -> None:
    suspects.lost(2)

    async def wait() -> None:
        first, second = (loop.create_task(suspects.until_resolved({2})) for _ in range(2))
        await asyncio.sleep(0.1)
        first.cancel()
        await asyncio.sleep(0)
        suspects.reached(2)
        await second

    loop.run_until_complete(wait())
    assert loop.time() == pytest.approx(0.1, abs=0.01)
