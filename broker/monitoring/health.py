"""Readiness: the reasons why the broker does not serve clients, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.disk import reason

if TYPE_CHECKING:
    from broker.shared_server import SharedServer

ALIVE = "ok\n"


def missing(shared: SharedServer) -> list[str]:
    """Return the reasons why clients are not served; empty if the broker is ready."""
    if shared.phase != "serving":
        return [f"the broker is {shared.phase}"]
    found = []
    node_id = shared.settings.node_id
    broker = shared.raft.image.brokers.get(node_id)
    if shared.settings.is_broker and (broker is None or not broker.active):
        found.append(f"broker {node_id} is fenced")
    if not any(directory.failure is None for directory in shared.logs.directories):
        found += impaired(shared)
    return found


def impaired(shared: SharedServer) -> list[str]:
    """Return the data directories that failed, while a ready broker serves the others."""
    return [
        f"the data directory {directory.path} failed: {reason(directory.failure)}"
        for directory in shared.logs.directories
        if directory.failure is not None
    ]
