"""What the report of a failing test shows of a cluster.

Brokers that do not run, the last requests of the test's clients with the responses, and the warnings in the logs.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from barnabas.testing._control import Unreachable, path_of
from barnabas.testing._nodes import unless_ended
from barnabas.testing._transcript import lines_of
from barnabas.testing.broker import Broker
from barnabas.testing.cluster import Cluster

_MOST_LINES = 30
_MOST_REQUESTS = 20
_MOST_CHARACTERS = 300
"""Of a request and its response."""
_SHOWN_LEVELS = (" WARNING ", " ERROR ", " CRITICAL ")


class Watched:
    """A cluster, from the beginning of a test on."""

    def __init__(self, cluster: Cluster) -> None:
        """Begin now."""
        self._cluster = cluster
        self._log_bytes: dict[int, int] = {}
        self._requests: dict[int, int] = {}
        self.is_swept = False
        """Whether the cluster was swept since the last begin: its transcripts have only what came later."""
        self.begin()

    def begin(self) -> None:
        """Begin again: what was before does not belong to the test."""
        self._log_bytes = {broker.node_id: broker.log_bytes for broker in self._cluster.brokers}
        self._requests = {}
        if self.is_swept:
            self.is_swept = False
            return
        for broker in self._serving():
            with suppress(Unreachable):
                self._requests[broker.pid] = broker.control.call("GET", path_of())["requests"]

    def text(self) -> str:
        """Return what there is to tell; "" if nothing."""
        requested: list[str] = []
        for broker in self._serving():
            with suppress(Unreachable):
                requested += unless_ended(broker, partial(self._requested, broker)) or []
        serving = self._serving()
        found = [broker.describe() for broker in self._cluster.brokers if broker not in serving] + requested
        for broker in self._cluster.brokers:
            found += self._logged(broker)
        return "\n".join(found)

    def _serving(self) -> list[Broker]:
        return [broker for broker in self._cluster.brokers if broker.is_running and not broker.is_paused]

    def _requested(self, broker: Broker) -> list[str]:
        """Return the last requests of clients to a broker, the latest last."""
        after = self._requests.get(broker.pid, 0)
        lines = lines_of([broker], {"after": after, "limit": _MOST_REQUESTS})
        cut = [line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]} ..." for line in lines]
        return [f"broker {broker.node_id}: {line}" for line in cut]

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
