"""Readiness: the reasons why the broker does not serve clients, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.disk import reason

if TYPE_CHECKING:
    from broker.node import Node

ALIVE = "ok\n"


def missing(broker: Node) -> list[str]:
    """Return the reasons why clients are not served; empty if the broker is ready."""
    if broker.phase != "serving":
        return [f"the broker is {broker.phase}"]
    found = []
    node = broker.image.brokers.get(broker.node_id)
    if node is None or not node.active:
        found.append(f"broker {broker.node_id} is fenced")
    if not any(directory.failure is None for directory in broker.logs.directories):
        found += impaired(broker)
    return found


def impaired(broker: Node) -> list[str]:
    """Return the data directories that failed, while a ready broker serves the others."""
    return [
        f"the data directory {directory.path} failed: {reason(directory.failure)}"
        for directory in broker.logs.directories
        if directory.failure is not None
    ]
