"""What surrounds a broker and can fail: its disk, and its network. Each lasts until it is healed.

    with leader.network.cut_off(clients=False):
        ...  # the leader is cut off from the other brokers
    leader.disk.slow(0.05)
    leader.disk.heal()

A broker that starts again has a sound disk, and is not cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, Self, TypeAlias

from barnabas.testing._control import path_of

Call: TypeAlias = Callable[[str, str, Mapping[str, Any] | None], dict[str, Any]]
"""Sends a request to the control API of the broker: method, path and body."""
Heal: TypeAlias = Callable[[str], None]
"""Deletes a path of the control API of the broker, unless the broker has ended."""
DiskOperation: TypeAlias = Literal["read", "write", "sync"]


class HasNodeId(Protocol):
    """A broker, by its id."""

    node_id: int


class Disturbance:
    """A disturbance of one broker; at the end of its block it is healed."""

    def __init__(self, heal: Callable[[], None]) -> None:
        """`heal` ends it."""
        self.heal = heal

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()


class BrokerDisk:
    """The disk of a broker. It has at most one fault; a new one replaces it.

    `operations` are those that have the fault; `directory` limits it to the files below a path, `count` to the first
    operations.
    """

    def __init__(self, call: Call, heal: Heal) -> None:
        """`call` and `heal` send requests to the broker."""
        self._call = call
        self._heal = heal
        self._path = path_of("disk")

    @property
    def fault(self) -> dict[str, Any]:
        """The fault, as the control API describes it; empty for a sound disk."""
        return self._call("GET", self._path, None)

    def slow(
        self,
        delay: float,
        operations: Sequence[DiskOperation] | None = None,
        *,
        directory: str | None = None,
        count: int | None = None,
    ) -> Disturbance:
        """Make each operation take `delay` seconds longer."""
        return self._break("slow", operations, directory, count, delay_ms=round(delay * 1000))

    def full(self, *, directory: str | None = None, count: int | None = None) -> Disturbance:
        """Refuse writes, as a disk without space does. The broker accepts records again within 5 s after `heal`."""
        return self._break("full", None, directory, count)

    def fail(
        self,
        operations: Sequence[DiskOperation] | None = None,
        *,
        directory: str | None = None,
        count: int | None = None,
    ) -> Disturbance:
        """Have operations fail, as a broken disk does.

        A data directory in which one failed is offline until the broker starts again. The broker ends if it is the one
        with the metadata log, which is the case unless `log.dirs` has several.
        """
        return self._break("failing", operations, directory, count)

    def heal(self) -> None:
        """Remove the fault."""
        self._heal(self._path)

    def _break(
        self,
        fault: str,
        operations: Sequence[DiskOperation] | None,
        directory: str | None,
        count: int | None,
        **more: object,
    ) -> Disturbance:
        body = {"fault": fault, "directory": directory, "count": count, **more}
        self._call("PUT", self._path, body if operations is None else body | {"operations": list(operations)})
        return Disturbance(self.heal)


class BrokerNetwork:
    """The network of a broker: what it is cut off from.

    As by a network that loses every packet: connections stay open, and nothing passes in either direction. What was
    sent meanwhile arrives after `heal`.
    """

    def __init__(self, call: Call, heal: Heal) -> None:
        """`call` and `heal` send requests to the broker."""
        self._call = call
        self._heal = heal
        self._path = path_of("network")
        self.is_isolated = False
        """Whether the broker is cut off from other brokers, and so does not learn of changes of the metadata."""

    def cut_off(self, *, clients: bool = True, brokers: bool | Sequence[HasNodeId | int] = True) -> Disturbance:
        """Cut the broker off from clients, and from all other brokers or those named, and from no others."""
        if isinstance(brokers, bool):
            state = self._call("GET", path_of(), None)
            ids = [one["node_id"] for one in state["brokers"] if one["node_id"] != state["node_id"]] if brokers else []
        else:
            ids = [one if isinstance(one, int) else one.node_id for one in brokers]
        self._call("PUT", self._path, {"clients": clients, "brokers": ids})
        self.is_isolated = bool(ids)
        return Disturbance(self.heal)

    def heal(self) -> None:
        """Remove all cuts at this broker."""
        self._heal(self._path)
        self.is_isolated = False

    def started(self) -> None:
        """Note that the broker was started again, without cuts."""
        self.is_isolated = False
