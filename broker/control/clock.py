"""The operations of the control API on the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from broker.control.bodies import NumberRange

if TYPE_CHECKING:
    from broker.control.control import Control

_LONGEST_MS = 100 * 365 * 24 * 3_600_000


class AdvanceBody(NamedTuple):
    """By how much time is to be advanced."""

    ms: Annotated[int, NumberRange(0, _LONGEST_MS)]


async def describe_clock(control: Control) -> dict[str, Any]:
    """Return the wall clock, and by how much it was advanced."""
    return {"wall_ms": control.clock.now_ms(), "clock_ms": control.clock.shift_ms}


async def advance_clock(control: Control, body: AdvanceBody) -> dict[str, Any]:
    """Advance the clock; return once the timers that became due have fired."""
    fired = await control.clock.advance(body.ms)
    return {**await describe_clock(control), "fired": fired}
