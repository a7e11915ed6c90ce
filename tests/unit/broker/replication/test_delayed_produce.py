"""Delayed produce; `handlers/test_produce.py` covers how each wait ends."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from tests.unit.broker.node import Node


@pytest.fixture
def node(node: Node) -> Node:
    """Return a leader of two partitions with one follower each, and a record in both."""
    node.create("t", partitions=2, replicas=(1, 2))
    for index in (0, 1):
        node.append("t", index=index)
    return node


def test_outcomes_are_known_once_the_last_one_is(node: Node) -> None:
    outcomes = node.replicas.acknowledged([(node.partition("t", index), 1) for index in (0, 1)], 1000)
    node.replicas.acknowledge(node.partition("t", 1), 2, 1, 0)
    node.pass_time(0)
    assert not outcomes.done()
    node.replicas.acknowledge(node.partition("t", 0), 2, 1, 0)
    assert node.wait(outcomes) == [ErrorCode.NONE, ErrorCode.NONE]
    assert node.purgatory._watchers == {}


def test_a_time_out_is_told_only_of_those_that_are_not_settled(node: Node) -> None:
    outcomes = node.replicas.acknowledged([(node.partition("t", index), 1) for index in (0, 1)], 1000)
    node.replicas.acknowledge(node.partition("t", 1), 2, 1, 0)
    assert node.wait(outcomes) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
    assert node.loop.time() == pytest.approx(1.0, abs=0.01)
    assert node.purgatory._watchers == {}


def test_what_is_settled_stays_so_whatever_happens_later(node: Node) -> None:
    outcomes = node.replicas.acknowledged([(node.partition("t", index), 1) for index in (0, 1)], 1000)
    node.replicas.acknowledge(node.partition("t", 1), 2, 1, 0)
    node.pass_time(0)
    node.elect("t", 2, index=1)
    assert node.wait(outcomes)[1] is ErrorCode.NONE


def test_a_wait_that_was_given_up_is_forgotten_with_the_next_change(node: Node) -> None:
    outcomes = node.replicas.acknowledged([(node.partition("t"), 1)], 1000)
    outcomes.cancel()
    node.elect("t", 2)
    node.pass_time(0)
    assert node.purgatory._watchers == {}


def test_what_is_committed_already_is_known_at_once(node: Node) -> None:
    node.replicas.acknowledge(node.partition("t"), 2, 1, 0)
    assert node.replicas.acknowledged([(node.partition("t"), 1)], 1000).done()
