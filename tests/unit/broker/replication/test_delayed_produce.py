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


def test_outcomes_are_returned_once_all_partitions_are_resolved(node: Node) -> None:
    outcomes = node.replicas.await_commit([(node.partition("t", index), 1) for index in (0, 1)], 1000)
    node.follower_fetch(node.partition("t", 1), 2, 1, 0)
    node.pass_time(0)
    assert not outcomes.done()
    node.follower_fetch(node.partition("t", 0), 2, 1, 0)
    assert node.wait(outcomes) == [ErrorCode.NONE, ErrorCode.NONE]
    assert node.purgatory._watchers == {}


def test_timeout_applies_only_to_unresolved_partitions(node: Node) -> None:
    outcomes = node.replicas.await_commit([(node.partition("t", index), 1) for index in (0, 1)], 1000)
    node.follower_fetch(node.partition("t", 1), 2, 1, 0)
    assert node.wait(outcomes) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
    assert node.loop.time() == pytest.approx(1.0, abs=0.01)
    assert node.purgatory._watchers == {}


def test_resolved_outcome_does_not_change_later(node: Node) -> None:
    outcomes = node.replicas.await_commit([(node.partition("t", index), 1) for index in (0, 1)], 1000)
    node.follower_fetch(node.partition("t", 1), 2, 1, 0)
    node.pass_time(0)
    node.elect("t", 2, index=1)
    assert node.wait(outcomes)[1] is ErrorCode.NONE


def test_cancelled_wait_is_removed_by_next_change(node: Node) -> None:
    outcomes = node.replicas.await_commit([(node.partition("t"), 1)], 1000)
    outcomes.cancel()
    node.elect("t", 2)
    node.pass_time(0)
    assert node.purgatory._watchers == {}


def test_wait_for_committed_offset_completes_immediately(node: Node) -> None:
    node.follower_fetch(node.partition("t"), 2, 1, 0)
    assert node.replicas.await_commit([(node.partition("t"), 1)], 1000).done()
