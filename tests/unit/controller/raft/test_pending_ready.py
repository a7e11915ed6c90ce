"""The pending Ready: each effect is returned once, and None when there is nothing to do."""

from __future__ import annotations

from typing import Any, cast

import pytest

from controller.raft.messages import ElectionState, Ready
from controller.raft.pending_ready import PendingReady

SOMETHING = object()


def test_no_ready_without_changes() -> None:
    pending = PendingReady(7)
    assert pending.take(7) is None


def test_higher_high_watermark_is_returned_once() -> None:
    pending = PendingReady(7)
    ready = pending.take(9)
    assert ready is not None
    assert ready.high_watermark == 9
    assert pending.take(9) is None


def test_every_effect_is_returned_once() -> None:
    pending = PendingReady(0)
    pending.election_state = ElectionState(3)
    pending.warnings.append("something")
    ready = pending.take(0)
    assert ready is not None
    assert (ready.election_state, ready.warnings) == (ElectionState(3), ("something",))
    assert pending.take(0) is None


@pytest.mark.parametrize("field", [field for field in Ready._fields if field != "high_watermark"])
def test_each_effect_alone_makes_a_ready(field: str) -> None:
    pending = cast("Any", PendingReady(0))
    kept = getattr(pending, field)
    setattr(pending, field, SOMETHING if kept is None else [SOMETHING])
    assert getattr(pending.take(0), field) in (SOMETHING, (SOMETHING,))
    assert pending.take(0) is None


def test_truncation_to_offset_0_makes_a_ready() -> None:
    pending = PendingReady(0)
    pending.truncate_to = 0
    ready = pending.take(0)
    assert ready is not None
    assert ready.truncate_to == 0
