"""How many connections there are, of each listener and of each address, and which limit one more would break.

`max.connections` holds for all listeners together, and as `listener.name.NAME.max.connections` for one;
`max.connections.per.ip` for each address, save for those that `max.connections.per.ip.overrides` names. Unlike Apache
Kafka, which leaves a connection beyond `max.connections` in the kernel's queue until another goes, all of them refuse.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class ConnectionLimits(NamedTuple):
    """The most connections: of all, of each address, of single addresses and listeners, and for want of descriptors."""

    max_connections: int
    max_connections_per_ip: int
    overrides: Mapping[str, int] = {}
    of_listeners: Mapping[str, int] = {}
    max_descriptors: int = sys.maxsize


class ConnectionCounts:
    """The open connections."""

    def __init__(self) -> None:
        self.total = 0
        self.by_listener: Counter[str] = Counter()
        self._by_host: Counter[str] = Counter()

    def reached(self, limits: ConnectionLimits, listener: str, host: str) -> str | None:
        """Return the limit, as the log is to name it, that allows no further connection of `host` on `listener`."""
        if self.total >= limits.max_connections:
            return f"max.connections={limits.max_connections}"
        if self.total >= limits.max_descriptors:
            return f"the number of connections that the limit of open files allows, {limits.max_descriptors},"
        of_listener = limits.of_listeners.get(listener)
        if of_listener is not None and self.by_listener[listener] >= of_listener:
            return f"listener.name.{listener.lower()}.max.connections={of_listener}"
        of_host = limits.overrides.get(host)
        if of_host is None and self._by_host[host] >= limits.max_connections_per_ip:
            return f"max.connections.per.ip={limits.max_connections_per_ip}"
        if of_host is not None and self._by_host[host] >= of_host:
            return f"max.connections.per.ip.overrides={host}:{of_host}"
        return None

    def add(self, listener: str, host: str) -> None:
        """Count a connection."""
        self.total += 1
        self.by_listener[listener] += 1
        self._by_host[host] += 1

    def remove(self, listener: str, host: str) -> None:
        """Count a connection no more."""
        self.total -= 1
        self.by_listener[listener] -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]


def parse_overrides(text: str) -> dict[str, int]:
    """Return the address or name, and the limit, of each part of `max.connections.per.ip.overrides`."""
    parts = (part.strip().rpartition(":") for part in text.split(",") if part.strip())
    return {_as_peers_are_named(host.strip().strip("[]")): int(count) for host, _, count in parts}


def _as_peers_are_named(host: str) -> str:
    """Return an address as sockets write it, `::1` for `0:0:0:0:0:0:0:1`; a name stays as it is."""
    from ipaddress import ip_address  # only who sets overrides pays for it

    try:
        return str(ip_address(host))
    except ValueError:
        return host
