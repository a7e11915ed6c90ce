"""Fixtures: a whole broker that serves metrics, and its scraper."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.monitoring.exposition import lines
from broker.monitoring.monitor import TABLES
from tests.unit.broker.whole_broker import WholeBroker

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Monitored(WholeBroker):
    """The broker and its scraper."""

    def page(self) -> str:
        """Return the metrics page, built without yielding."""
        return "".join(lines(TABLES, self.node))

    def series(self) -> Series:
        """Return every sample of the page by name and labels, parsed by prometheus-client."""
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(self.page())
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        return self.series().get((name, tuple(sorted(labels.items()))))

    def get(self, path: str) -> tuple[int, str]:
        """Send an HTTP GET; return status and body."""

        async def query() -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.http_port)
            writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            return answer

        head, _, body = self.wait(query()).partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()

    @property
    def http_port(self) -> int:
        assert self.node.monitor is not None
        port: int = self.node.monitor._http._server.sockets[0].getsockname()[1]
        return port


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Monitored]:
    made = Monitored(
        str(tmp_path / "data"), barnabas_metrics_listener="127.0.0.1:0", group_initial_rebalance_delay_ms="0"
    )
    yield made
    made.loop.close()


@pytest.fixture
def monitored(stopped: Monitored) -> Iterator[Monitored]:
    stopped.wait(stopped.start())
    yield stopped
    stopped.wait(stopped.stop())
