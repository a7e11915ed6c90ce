"""The pending Ready: each effect is returned once, and None when there is nothing to do."""

from __future__ import annotations

from typing import Any, cast

import pytest

from controller.raft.messages import Ready
from controller.raft.node import QuorumState
from controller.raft.pending_ready import PendingReady

SOMETHING = object()


def test_nothing_is_to_be_done_when_nothing_is_new() -> None:
    outbox = PendingReady(7)
    assert outbox.take(7) is None


def test_a_higher_high_watermark_alone_is_news_once() -> None:
    outbox = PendingReady(7)
    ready = outbox.take(9)
    assert ready is not None
    assert ready.high_watermark == 9
    assert outbox.take(9) is None


def test_everything_is_given_out_once() -> None:
    outbox = PendingReady(0)
    outbox.quorum_state = QuorumState(3)
    outbox.warnings.append("something")
    ready = outbox.take(0)
    assert ready is not None
    assert (ready.quorum_state, ready.warnings) == (QuorumState(3), ("something",))
    assert outbox.take(0) is None


@pytest.mark.parametrize("field", [field for field in Ready._fields if field != "high_watermark"])
def test_anything_alone_is_given_out(field: str) -> None:
    outbox = cast("Any", PendingReady(0))
    kept = getattr(outbox, field)
    setattr(outbox, field, SOMETHING if kept is None else [SOMETHING])
    assert getattr(outbox.take(0), field) in (SOMETHING, (SOMETHING,))
    assert outbox.take(0) is None


def test_truncating_to_the_beginning_is_something_to_do() -> None:
    outbox = PendingReady(0)
    outbox.truncate_to = 0
    ready = outbox.take(0)
    assert ready is not None
    assert ready.truncate_to == 0
