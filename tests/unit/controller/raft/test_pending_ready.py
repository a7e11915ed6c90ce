"""The pending Ready: each effect is returned once, and None when there is nothing to do."""

from __future__ import annotations

from typing import Any, cast

import pytest

from controller.raft.messages import Ready
from controller.raft.node import QuorumState
from controller.raft.pending_ready import PendingReady

SOMETHING = object()


def test_no_ready_without_changes() -> None:
    outbox = PendingReady(7)
    assert outbox.take(7) is None


def test_higher_high_watermark_is_returned_once() -> None:
    outbox = PendingReady(7)
    ready = outbox.take(9)
    assert ready is not None
    assert ready.high_watermark == 9
    assert outbox.take(9) is None


def test_every_effect_is_returned_once() -> None:
    outbox = PendingReady(0)
    outbox.quorum_state = QuorumState(3)
    outbox.warnings.append("something")
    ready = outbox.take(0)
    assert ready is not None
    assert (ready.quorum_state, ready.warnings) == (QuorumState(3), ("something",))
    assert outbox.take(0) is None


@pytest.mark.parametrize("field", [field for field in Ready._fields if field != "high_watermark"])
def test_each_effect_alone_makes_a_ready(field: str) -> None:
    outbox = cast("Any", PendingReady(0))
    kept = getattr(outbox, field)
    setattr(outbox, field, SOMETHING if kept is None else [SOMETHING])
    assert getattr(outbox.take(0), field) in (SOMETHING, (SOMETHING,))
    assert outbox.take(0) is None


def test_truncation_to_offset_0_makes_a_ready() -> None:
    outbox = PendingReady(0)
    outbox.truncate_to = 0
    ready = outbox.take(0)
    assert ready is not None
    assert ready.truncate_to == 0
