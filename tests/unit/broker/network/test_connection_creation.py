"""Limits on the rate of new connections, from the configs and quotas to the socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.monitoring.rate import SampleWindow
from broker.network.connection import Connection
from broker.quotas.connection_rates import ConnectionRates, RateLimits
from protocol.api import ApiKey
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.primitives import Part
from tests.typed import present
from tests.unit.broker.conftest import Run, Serving, framed
from tests.unit.broker.whole_broker import WholeBroker


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - the condition has no event
        await asyncio.sleep(0)


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_delayed_connection_is_read_from_at_its_turn_and_others_at_once(
    run: Run, serving: Serving, size: int
) -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        turn = 0.0

        def answer(request: bytes, connection: Connection) -> list[Part]:
            is_late = connection.client_host == "127.0.0.1" and loop.time() >= turn
            return [framed(request[:6] + (b" late" if is_late else b""))]

        async with serving() as served:
            served.script.answer = answer
            served.server.connection_rates = rates = ConnectionRates(SampleWindow(1, 50), lambda: 0.0)
            rates.limit(RateLimits(per_address={"127.0.0.1": 20.0}))  # one, and then another each 50 ms
            await served.connect()
            turn = loop.time() + 0.05
            delayed = await served.connect()
            delayed.send(b"first " * size)
            other = await served.connect(local_addr=("127.0.0.2", 0))
            other.send(b"second")
            assert await other.receive() == b"second"
            assert served.script.seen == [b"second"]
            assert await delayed.receive() == b"first  late"

    run(body())


def test_a_delayed_connection_that_closes_is_forgotten_and_a_refused_one_is_closed(run: Run, serving: Serving) -> None:
    async def body() -> None:
        async with serving() as served:
            served.server.connection_rates = rates = ConnectionRates(SampleWindow(1, 1000), lambda: 0.0)
            rates.limit(RateLimits(of_broker=1.0))
            clients = [await served.connect() for _ in range(22)]
            assert await clients[-1].closed()
            await until(lambda: len(served.server.connections) == 21)
            assert served.server.metrics.connections_refused == 1
            await served.server.stop(5.0)  # which a delay does not hold up
            assert not served.server.connections

    run(body())


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[WholeBroker]:
    running = WholeBroker(str(tmp_path / "data"))
    running.wait(running.start())
    yield running
    running.wait(running.stop())
    running.loop.close()


def rates_of(whole: WholeBroker) -> ConnectionRates | None:
    return whole.node.shared.server.connection_rates


def set_quota(whole: WholeBroker, address: str | None, value: float | None) -> None:
    entry = AlterClientQuotasRequest.Entry
    op = entry.Op(key="connection_creation_rate", value=value or 0.0, remove=value is None)
    entity = [entry.Entity(entity_type="ip", entity_name=address)]
    answer = whole.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[entry(entity=entity, ops=[op])], validate_only=False)
    assert [one.error_code for one in answer.entries] == [0]


def set_config(whole: WholeBroker, name: str, value: str | None) -> None:
    resource = IncrementalAlterConfigsRequest.Resource
    config = resource.Config(name=name, config_operation=0 if value else 1, value=value)
    wanted = resource(resource_type=4, resource_name="", configs=[config])
    answer = whole.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[wanted], validate_only=False)
    assert [one.error_code for one in answer.responses] == [0]


def refused_by(whole: WholeBroker, host: str) -> str | None:
    return present(rates_of(whole)).admit("PLAINTEXT", host).refused_by


def test_without_a_limit_the_server_has_no_rates(whole: WholeBroker) -> None:
    assert rates_of(whole) is None
    set_quota(whole, "192.0.2.1", 5.0)
    assert rates_of(whole) is not None
    set_quota(whole, "192.0.2.1", None)
    assert rates_of(whole) is None


def test_quotas_of_addresses_are_those_of_the_metadata(whole: WholeBroker) -> None:
    set_quota(whole, "2001:db8:0:0:0:0:0:1", 1.0)
    set_quota(whole, None, 2.0)
    counts = {}
    for host in ("2001:db8::1", "192.0.2.1"):
        counts[host] = 0
        while refused_by(whole, host) is None:
            counts[host] += 1
    assert counts == {"2001:db8::1": 11 + 20, "192.0.2.1": 2 * (11 + 20)}


def test_a_host_name_stands_for_its_addresses(whole: WholeBroker) -> None:
    set_quota(whole, "localhost", 1.0)
    whole.wait(until(lambda: refused_by(whole, "127.0.0.1") is not None))
    assert refused_by(whole, "192.0.2.1") is None


def is_limited(whole: WholeBroker) -> bool:
    """Return whether one of the next 12,000 connections is delayed: a burst at 1,000 per second has 11,000."""
    rates = rates_of(whole)
    return rates is not None and any(rates.admit("PLAINTEXT", "192.0.2.1").delay_s for _ in range(12_000))


@pytest.mark.parametrize(
    "name", ["max.connection.creation.rate", "listener.name.plaintext.max.connection.creation.rate"]
)
def test_rates_of_broker_and_listener_are_altered_at_run_time(whole: WholeBroker, name: str) -> None:
    set_config(whole, name, "1000")
    assert is_limited(whole)
    set_config(whole, name, "2147483647")
    assert rates_of(whole) is None
    set_config(whole, name, "2000")
    assert rates_of(whole) is not None
    set_config(whole, name, None)
    assert rates_of(whole) is None
