"""The operations of the control API on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from broker.control.api_problem import bad_request
from broker.control.bodies import NumberRange
from broker.control.controlled_disk import KINDS, DiskFault

if TYPE_CHECKING:
    from broker.control.control import Control

_LONGEST_MS = 10_000


class DiskBody(NamedTuple):
    """What is wrong with the disk: in all data directories or under one path, for all operations or some of them."""

    fault: Literal["slow", "full", "failing"]
    operations: list[Literal["read", "write", "sync"]] | None = None
    delay_ms: Annotated[int, NumberRange(1, _LONGEST_MS)] | None = None
    directory: str | None = None
    count: Annotated[int, NumberRange(1)] | None = None  # type: ignore[assignment]  # not the method of a tuple


async def describe_disk(control: Control) -> dict[str, Any]:
    """Return the fault of the disk; nothing if it is sound."""
    fault = control.disk.fault
    if fault is None:
        return {}
    described: dict[str, Any] = {"fault": fault.fault, "operations": sorted(fault.kinds)}
    if fault.delay_s:
        described["delay_ms"] = round(fault.delay_s * 1000)
    if fault.directory:
        described["directory"] = fault.directory
    if fault.left is not None:
        described["left"] = fault.left
    return described


async def break_disk(control: Control, body: DiskBody) -> dict[str, Any]:
    """Give the disk a fault, in place of any other."""
    if (body.fault == "slow") != (body.delay_ms is not None):
        raise bad_request("delay_ms: it belongs to a slow disk, which needs it")
    kinds = frozenset(body.operations or (("write",) if body.fault == "full" else KINDS))
    control.disk.fault = DiskFault(body.fault, kinds, (body.delay_ms or 0) / 1000, body.directory or "", body.count)
    return await describe_disk(control)


async def heal_disk(control: Control) -> dict[str, Any]:
    """Remove the fault of the disk. A data directory that failed stays offline until the next start."""
    control.disk.fault = None
    return {}
