"""Monitor: the HTTP pages of metrics and probes, and the state measured only while monitoring is enabled.

/metrics    Prometheus' text format: everything in `TABLES`; while the broker starts, the process metrics only
/healthz    200 while the event loop runs
/readyz     200 when clients are served, else 503 and the reasons
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from broker.monitoring import (
    broker_tables,
    group_tables,
    partition_tables,
    quota_tables,
    replication_tables,
    transaction_tables,
)
from broker.monitoring.elections import ElectionCounts
from broker.monitoring.exposition import CONTENT_TYPE, lines
from broker.monitoring.http_server import HttpServer, Page
from broker.monitoring.process import PROCESS
from broker.monitoring.request_errors import RequestErrors, with_errors
from broker.monitoring.request_times import TimedDispatcher, Times
from storage.disk import reason

if TYPE_CHECKING:
    import ssl

    from broker.monitoring.monitored import MonitoredNode
    from broker.network.connection_protocol import Dispatch
    from broker.shared_server import SharedServer

TABLES = (
    PROCESS,
    *broker_tables.TABLES,
    *replication_tables.TABLES,
    *partition_tables.TABLES,
    *group_tables.TABLES,
    *transaction_tables.TABLES,
    *quota_tables.TABLES,
)

_SHORTEST_S = 1.0


class Monitor:
    """The state of monitoring, and its HTTP server."""

    def __init__(self, node: MonitoredNode, clock: Callable[[], float]) -> None:
        """`clock` gives seconds, finer than the loop's."""
        self.clock = clock
        self.times: dict[int, Times] = {}
        self.errors = RequestErrors()
        self.with_errors = with_errors
        self.elections = ElectionCounts()
        self._node = node
        pages = {"/metrics": self._metrics, "/healthz": self._health, "/readyz": self._readiness}
        self._http = HttpServer(pages, clock)
        self._sampled_at, self._used_s = clock(), _processor_s()
        self._idle = 1.0

    async def start(
        self, host: str, port: int, token: str | None = None, tls: Callable[[], ssl.SSLContext] | None = None
    ) -> int:
        """Listen and return the port; OSError if that fails. `token` and `tls` are those of `HttpServer.start`."""
        return await self._http.start(host, port, token, tls)

    async def stop(self) -> None:
        """Stop listening."""
        await self._http.stop()

    def timed(self, dispatch: Dispatch) -> Dispatch:
        """Return `dispatch` wrapped to time requests and count errors."""
        return TimedDispatcher(dispatch, self.times, self.errors, self.clock)

    def idle_ratio(self) -> float:
        """Return the idle part of the process's time, 0 to 1, measured at most once per second."""
        now = self.clock()
        if now - self._sampled_at >= _SHORTEST_S:
            used_s = _processor_s()
            busy = (used_s - self._used_s) / (now - self._sampled_at)
            self._idle = round(min(1.0, max(0.0, 1.0 - busy)), 4)
            self._sampled_at, self._used_s = now, used_s
        return self._idle

    def _metrics(self) -> Page:
        tables = (PROCESS,) if self._node.shared.phase == "starting" else TABLES
        return Page(HTTPStatus.OK, lines(tables, self._node), CONTENT_TYPE)

    def _health(self) -> Page:
        return Page(HTTPStatus.OK, ("ok\n",))

    def _readiness(self) -> Page:
        lacks = reasons_not_ready(self._node.shared)
        if lacks:
            return Page(HTTPStatus.SERVICE_UNAVAILABLE, [f"{what}\n" for what in lacks])
        return Page(HTTPStatus.OK, ["ready\n", *(f"{what}\n" for what in failed_directories(self._node.shared))])


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def reasons_not_ready(shared: SharedServer) -> list[str]:
    """Return the reasons why clients are not served; empty if the broker is ready."""
    if shared.phase != "serving":
        return [f"the broker is {shared.phase}"]
    found = []
    node_id = shared.settings.node_id
    broker = shared.raft.image.brokers.get(node_id)
    if shared.settings.is_broker and (broker is None or not broker.active):
        found.append(f"broker {node_id} is fenced")
    if not any(directory.failure is None for directory in shared.logs.directories):
        found += failed_directories(shared)
    return found


def failed_directories(shared: SharedServer) -> list[str]:
    """Return the data directories that failed, while a ready broker serves the others."""
    return [
        f"the data directory {directory.path} failed: {reason(directory.failure)}"
        for directory in shared.logs.directories
        if directory.failure is not None
    ]
