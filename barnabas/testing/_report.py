"""What the report of a failing test shows of a cluster: brokers that do not run, and their logs' warnings."""

from __future__ import annotations

from barnabas.testing.broker import Broker
from barnabas.testing.cluster import Cluster

_MOST_LINES = 30
_SHOWN_LEVELS = (" WARNING ", " ERROR ", " CRITICAL ")


class Watched:
    """A cluster, from the beginning of a test on."""

    def __init__(self, cluster: Cluster) -> None:
        """Begin now."""
        self._cluster = cluster
        self._log_bytes: dict[int, int] = {}
        self.begin()

    def begin(self) -> None:
        """Begin again: what was before does not belong to the test."""
        self._log_bytes = {broker.node_id: broker.log_bytes for broker in self._cluster.brokers}

    def text(self) -> str:
        """Return what there is to tell; "" if nothing."""
        found = []
        for broker in self._cluster.brokers:
            if not broker.is_running or broker.is_paused:
                found.append(broker.describe())
            found += self._logged(broker)
        return "\n".join(found)

    def _logged(self, broker: Broker) -> list[str]:
        """Return the warnings and errors of a broker's log, with the tracebacks that follow them."""
        lines: list[str] = []
        shown = False
        for line in broker.log_since(self._log_bytes.get(broker.node_id, 0)).splitlines():
            if line[:1].isdigit():
                shown = any(level in line for level in _SHOWN_LEVELS)
            if shown:
                lines.append(f"broker {broker.node_id}: {line}")
        left_out = [f"broker {broker.node_id}: ({len(lines) - _MOST_LINES} earlier lines)"]
        return left_out + lines[-_MOST_LINES:] if len(lines) > _MOST_LINES else lines
