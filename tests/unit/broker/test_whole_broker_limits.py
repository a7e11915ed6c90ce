"""Limits on connections and on memory, set at start and altered live."""

from __future__ import annotations

import asyncio
from asyncio.streams import StreamReader, StreamWriter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.unit.broker.whole_broker import WholeBroker

BROKER, SET = 4, 0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., WholeBroker]]:
    running = []

    def start(**settings: Any) -> WholeBroker:
        whole = WholeBroker(str(tmp_path / "data"), **settings)
        running.append(whole)
        whole.wait(whole.start())
        return whole

    yield start
    for whole in running:
        whole.wait(whole.stop())
        whole.loop.close()


async def connected(whole: WholeBroker, count: int) -> int:
    """Open this many connections; return how many are accepted."""
    host, _, port = whole.node.bootstrap.rpartition(":")
    opened = [await asyncio.open_connection(host, int(port)) for _ in range(count)]
    await asyncio.gather(*(let_in(*streams) for streams in opened))
    served = [not reader.at_eof() for reader, _ in opened]
    for _, writer in opened:
        writer.close()
    while whole.node.shared.server.connections:  # noqa: ASYNC110 - no event to wait for
        await asyncio.sleep(0)
    return sum(served)


async def let_in(reader: StreamReader, writer: StreamWriter) -> None:
    writer.write(b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff")  # ApiVersions
    try:
        await reader.readexactly(4)
    except (asyncio.IncompleteReadError, ConnectionResetError):
        reader.feed_eof()


def alter(whole: WholeBroker, **configs: str) -> None:
    changes = [
        IncrementalAlterConfigsRequest.Resource.Config(name=name.replace("_", "."), config_operation=SET, value=value)
        for name, value in configs.items()
    ]
    resource = IncrementalAlterConfigsRequest.Resource(resource_type=BROKER, resource_name="", configs=changes)
    (answer,) = whole.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
    assert answer.error_code == 0, answer.error_message


def test_initial_limits_come_from_the_configs(start: Callable[..., WholeBroker]) -> None:
    whole = start(max_connections_per_ip="2", max_connections_per_ip_overrides="10.0.0.1:7, 127.0.0.1:3")
    assert whole.wait(connected(whole, 5)) == 3


def test_limits_can_be_altered_live(start: Callable[..., WholeBroker]) -> None:
    whole = start()
    alter(whole, max_connections_per_ip="2")
    assert whole.wait(connected(whole, 5)) == 2
    alter(whole, max_connections_per_ip_overrides="127.0.0.1:4")
    assert whole.wait(connected(whole, 5)) == 4
    alter(whole, max_connections="3")
    assert whole.wait(connected(whole, 5)) == 3
    alter(whole, listener_name_plaintext_max_connections="1")
    assert whole.wait(connected(whole, 5)) == 1


def test_memory_for_requests_has_no_limit_unless_one_is_set(start: Callable[..., WholeBroker]) -> None:
    unlimited = start().node.shared.server.request_memory
    unlimited.take(1 << 50)
    assert not unlimited.full


def test_memory_for_requests_is_limited_if_set(start: Callable[..., WholeBroker]) -> None:
    memory = start(queued_max_request_bytes="1000").node.shared.server.request_memory
    memory.take(1000)
    assert memory.full
