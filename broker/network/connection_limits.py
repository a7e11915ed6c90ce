"""Connection limits from the settings; some can be altered at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.network.connection_counts import ConnectionLimits, parse_overrides
from protocol.request_memory import UNLIMITED

if TYPE_CHECKING:
    from broker.metadata.dynamic_config import DynamicConfig
    from broker.settings import Settings


class Limits(NamedTuple):
    """The server's limits on clients."""

    connections: ConnectionLimits
    max_request_bytes: int
    max_idle_s: float
    max_queued_bytes: int = UNLIMITED


def server_limits(settings: Settings, live: DynamicConfig, max_descriptors: int) -> Limits:
    """Return the current limits; all connections together are at most `max_descriptors`."""
    queued_bytes = settings["queued.max.request.bytes"]
    return Limits(
        ConnectionLimits(
            max_connections=live["max.connections"],
            max_connections_per_ip=live["max.connections.per.ip"],
            overrides=parse_overrides(live["max.connections.per.ip.overrides"]),
            of_listeners={
                endpoint.listener: live.of_listener(endpoint.listener, "max.connections")
                for endpoint in settings.listeners
            },
            max_descriptors=max_descriptors,
        ),
        max_request_bytes=settings["socket.request.max.bytes"],
        max_idle_s=settings["connections.max.idle.ms"] / 1000,
        max_queued_bytes=queued_bytes if queued_bytes > 0 else UNLIMITED,
    )
