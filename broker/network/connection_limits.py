"""Connection limits: from the settings, some of which can be altered at run time, and from RLIMIT_NOFILE.

The soft limit of open files is raised to the hard one; the usual soft limit of 1,024 is too low. Half of the limit, at
most `_MAX_RESERVED_FILES`, is reserved for segments, since a log whose segment cannot be opened refuses records; the
rest is for connections. The maximum is enough for thousands of logs in use at a time (`storage.log.open_files`).
"""

import resource
from contextlib import suppress
from typing import NamedTuple

from broker.metadata.dynamic_config import DynamicConfig
from broker.network.connection_counts import ConnectionLimits, parse_overrides
from broker.settings import Settings
from protocol.request_memory import UNLIMITED

MAX_UNAUTHENTICATED_BYTES = 32 << 20
"""Limit of the memory for incomplete requests of all clients that have not authenticated: 64 of the largest tokens."""

_MAX_RESERVED_FILES = 10_000
# Used if the hard limit is infinite: the kernel may not grant that (macOS).
_MAX_OPEN_FILES = 1 << 20


class Limits(NamedTuple):
    """The server's limits on clients."""

    connections: ConnectionLimits
    max_request_bytes: int
    max_idle_s: float
    max_queued_bytes: int = UNLIMITED
    max_unauthenticated_bytes: int = MAX_UNAUTHENTICATED_BYTES


def server_limits(settings: Settings, dynamic_config: DynamicConfig, max_descriptors: int) -> Limits:
    """Return the current limits; all connections together are at most `max_descriptors`."""
    queued_bytes = settings["queued.max.request.bytes"]
    max_queued_bytes = queued_bytes if queued_bytes > 0 else UNLIMITED
    return Limits(
        ConnectionLimits(
            max_connections=dynamic_config["max.connections"],
            max_connections_per_ip=dynamic_config["max.connections.per.ip"],
            overrides=parse_overrides(dynamic_config["max.connections.per.ip.overrides"]),
            per_listener={
                endpoint.listener: dynamic_config.of_listener(endpoint.listener, "max.connections")
                for endpoint in settings.listeners
            },
            max_descriptors=max_descriptors,
        ),
        max_request_bytes=settings["socket.request.max.bytes"],
        max_idle_s=settings["connections.max.idle.ms"] / 1000,
        max_queued_bytes=max_queued_bytes,
        max_unauthenticated_bytes=min(max_queued_bytes, MAX_UNAUTHENTICATED_BYTES),
    )


def raise_open_file_limit() -> int:
    """Raise the soft limit of open files to the hard one; return the resulting limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MAX_OPEN_FILES
    wanted = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else hard
    if soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return soft


def connections_within(limit: int) -> int:
    """Return how many connections to accept at a limit of `limit` open files."""
    return limit - min(limit // 2, _MAX_RESERVED_FILES)


def segments_within(limit: int) -> int:
    """Return how many segment files may be open at that limit: 3/4 of what connections do not use."""
    return max((limit - connections_within(limit)) * 3 // 4, 1)
