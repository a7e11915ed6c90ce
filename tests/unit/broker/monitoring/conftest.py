"""A whole broker on an event loop of its own, that serves metrics, and what a scraper and a client see of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from pathlib import Path
from random import Random
from struct import Struct
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.broker import Broker
from broker.monitoring.exposition import lines
from broker.monitoring.monitor import TABLES
from broker.settings import Option, check_settings
from protocol.api import APIS, ApiKey, request_class, response_class
from protocol.headers import RequestHeader, encode_request_header
from protocol.primitives import skip_tagged_fields
from storage.disk import OsDisk

_SIZE = Struct(">i")

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Monitored:
    """The broker and its surroundings."""

    def __init__(self, directory: str) -> None:
        self.loop = asyncio.new_event_loop()
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": directory,
            "barnabas.metrics.listener": "127.0.0.1:0",
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        found = {name: Option(text, "test") for name, text in settings.items()}
        self.broker = Broker(check_settings(found), OsDisk(), self.loop, random=Random(1))

    def wait(self, awaitable: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(awaitable, 60))

    async def ask(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        """Send a request over a connection of its own, and return the response."""
        header = encode_request_header(RequestHeader(key, version, 1, "test"))
        request = header + request_class(key)(**fields).encode(version)
        host, _, port = self.broker.bootstrap.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(_SIZE.pack(len(request)) + request)
        answer = await reader.readexactly(_SIZE.unpack(await reader.readexactly(_SIZE.size))[0])
        writer.close()
        body_at = skip_tagged_fields(answer, 4) if APIS[key].is_flexible(version) else 4
        return response_class(key).decode(memoryview(bytearray(answer)), version, body_at)

    def call(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        return self.wait(self.ask(key, version, **fields))

    def page(self) -> str:
        """Return the metrics, made in one go."""
        return "".join(lines(TABLES, self.broker))

    def series(self) -> Series:
        """Return every sample of the page by its name and labels, as Prometheus reads it."""
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(self.page())
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        return self.series().get((name, tuple(sorted(labels.items()))))

    def get(self, path: str) -> tuple[int, str]:
        """Ask over HTTP; return status and body."""

        async def ask() -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.http_port)
            writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            return answer

        head, _, body = self.wait(ask()).partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()

    @property
    def http_port(self) -> int:
        assert self.broker.monitor is not None
        port: int = self.broker.monitor._http._server.sockets[0].getsockname()[1]
        return port


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Monitored]:
    made = Monitored(str(tmp_path / "data"))
    yield made
    made.loop.close()


@pytest.fixture
def monitored(stopped: Monitored) -> Iterator[Monitored]:
    stopped.wait(stopped.broker.start())
    yield stopped
    stopped.wait(stopped.broker.stop())
