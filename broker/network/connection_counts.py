"""Connection counts per listener and address, and the limit that one more would exceed.

`max.connections` limits all listeners together, and as `listener.name.NAME.max.connections` one of them;
`max.connections.per.ip` limits each address, except those in `max.connections.per.ip.overrides`. Every limit refuses.
Apache Kafka leaves connections beyond `max.connections` in the accept queue until another closes.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class ConnectionLimits(NamedTuple):
    """The most connections: in total, per address, of single addresses and listeners, and by file descriptors."""

    max_connections: int
    max_connections_per_ip: int
    overrides: Mapping[str, int] = {}
    per_listener: Mapping[str, int] = {}
    max_descriptors: int = sys.maxsize


class ConnectionCounts:
    """The open connections."""

    def __init__(self) -> None:
        self.total = 0
        self.by_listener: Counter[str] = Counter()
        self._by_host: Counter[str] = Counter()

    def reached(self, limits: ConnectionLimits, listener: str, host: str) -> str | None:
        """Return the limit, as text for the log, that refuses another connection of `host` on `listener`; else None."""
        if self.total >= limits.max_connections:
            return f"max.connections={limits.max_connections}"
        if self.total >= limits.max_descriptors:
            return f"the open file limit ({limits.max_descriptors} connections)"
        of_listener = limits.per_listener.get(listener)
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
        """Remove a connection from the counts."""
        self.total -= 1
        self.by_listener[listener] -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]


def parse_overrides(text: str) -> dict[str, int]:
    """Return the limit of each address or host name in `max.connections.per.ip.overrides`."""
    parts = (part.strip().rpartition(":") for part in text.split(",") if part.strip())
    return {_as_peers_are_named(host.strip().strip("[]")): int(count) for host, _, count in parts}


def _as_peers_are_named(host: str) -> str:
    """Return an address as sockets write it, `::1` for `0:0:0:0:0:0:0:1`; a host name unchanged."""
    from ipaddress import ip_address  # imported only if overrides are set

    try:
        return str(ip_address(host))
    except ValueError:
        return host
