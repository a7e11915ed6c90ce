"""The broker's side of monitoring: the pages it serves over HTTP, and what is measured only where they are asked for.

/metrics    Prometheus' text format: everything in `TABLES`, and while the broker starts, the process only
/healthz    200 for as long as the event loop turns
/readyz     200 when clients are served, otherwise 503 and what is missing
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from broker.monitoring import broker_tables, group_tables, partition_tables, replication_tables
from broker.monitoring.elections import ElectionCounts
from broker.monitoring.exposition import CONTENT_TYPE, lines
from broker.monitoring.health import ALIVE, impaired, missing
from broker.monitoring.http_server import HttpServer, Page
from broker.monitoring.process import PROCESS
from broker.monitoring.request_errors import RequestErrors, with_errors
from broker.monitoring.request_times import TimedDispatcher, Times
from broker.monitoring.telemetry_table import TELEMETRY_TABLE

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection_protocol import Dispatch

TABLES = (
    PROCESS,
    *broker_tables.TABLES,
    *replication_tables.TABLES,
    *partition_tables.TABLES,
    *group_tables.TABLES,
    TELEMETRY_TABLE,
)

_SHORTEST_S = 1.0


class Monitor:
    """What monitoring needs to remember, and its HTTP server."""

    def __init__(self, broker: Broker, clock: Callable[[], float]) -> None:
        """`clock` gives seconds, finer than the loop's."""
        self.clock = clock
        self.times: dict[int, Times] = {}
        self.errors = RequestErrors()
        self.with_errors = with_errors
        self.elections = ElectionCounts()
        self._broker = broker
        pages = {"/metrics": self._metrics, "/healthz": self._health, "/readyz": self._readiness}
        self._http = HttpServer(pages, clock)
        self._looked_at, self._worked_s = clock(), _processor_s()
        self._idle = 1.0

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port; OSError if that is impossible."""
        return await self._http.start(host, port)

    async def stop(self) -> None:
        """Listen no more."""
        await self._http.stop()

    def timed(self, dispatch: Dispatch) -> Dispatch:
        """Return `dispatch` with the time taken of what goes through it, and its errors counted."""
        return TimedDispatcher(dispatch, self.times, self.errors, self.clock)

    def idle_ratio(self) -> float:
        """Return the part of the time since the last call, or of the last second, that the process did not work."""
        now = self.clock()
        if now - self._looked_at >= _SHORTEST_S:
            worked_s = _processor_s()
            busy = (worked_s - self._worked_s) / (now - self._looked_at)
            self._idle = round(min(1.0, max(0.0, 1.0 - busy)), 4)
            self._looked_at, self._worked_s = now, worked_s
        return self._idle

    def _metrics(self) -> Page:
        tables = (PROCESS,) if self._broker.phase == "starting" else TABLES
        return Page(HTTPStatus.OK, lines(tables, self._broker), CONTENT_TYPE)

    def _health(self) -> Page:
        return Page(HTTPStatus.OK, (ALIVE,))

    def _readiness(self) -> Page:
        lacks = missing(self._broker)
        if lacks:
            return Page(HTTPStatus.SERVICE_UNAVAILABLE, [f"{what}\n" for what in lacks])
        return Page(HTTPStatus.OK, ["ready\n", *(f"{what}\n" for what in impaired(self._broker))])


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
