"""A broker that is cut off from its clients. From other brokers: `tests/clients/test_cut_brokers.py`."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from broker.control.gated_loop import GatedLoop
from broker.control.network_cuts import NetworkCuts
from protocol.api import ApiKey
from protocol.messages.fetch import FetchRequest
from tests.unit.broker.control.controlled_broker import ControlledBroker


async def settle(broker: ControlledBroker) -> None:
    """Let requests of other connections arrive: a request of the control API takes longer."""
    for _ in range(3):
        await broker.ask("GET", "/v1")


def test_requests_of_clients_wait_until_the_cut_is_healed(broker: ControlledBroker) -> None:
    cut = {"clients": True, "brokers": []}
    assert broker.reply("PUT", "/v1/network", clients=True).content == cut
    assert broker.get("/v1/network").content == cut

    async def body() -> Any:
        waiting = asyncio.ensure_future(broker.query(ApiKey.LIST_GROUPS, 5))
        await settle(broker)
        is_answered = waiting.done()
        await broker.ask("DELETE", "/v1/network")
        return is_answered, (await waiting).error_code

    assert broker.wait(body()) == (False, 0)


def test_a_response_waits_that_comes_during_a_cut(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t")
    broker.post("/v1/faults", api="Fetch")
    topic_id = broker.broker.image.topics_by_name()["t"].topic_id
    row = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=100)
    topics = [FetchRequest.Topic(topic_id=topic_id, partitions=[row])]

    async def body() -> Any:
        fetching = asyncio.ensure_future(broker.query(ApiKey.FETCH, 18, max_wait_ms=60_000, min_bytes=1, topics=topics))
        await broker.ask("POST", "/v1/faults/1/wait", hits=1)
        await broker.ask("PUT", "/v1/network", clients=True)
        await broker.ask("POST", "/v1/topics/t/records", records=[{"value": "v"}])
        await settle(broker)
        is_answered = fetching.done()
        await broker.ask("DELETE", "/v1/network")
        return is_answered, (await fetching).responses[0].partitions[0].high_watermark

    assert broker.wait(body()) == (False, 1)


def test_a_cut_from_other_nodes_does_not_concern_clients(broker: ControlledBroker) -> None:
    assert broker.reply("PUT", "/v1/network", brokers=[2]).content == {"clients": False, "brokers": [2]}
    assert broker.call(ApiKey.LIST_GROUPS, 5).error_code == 0


def test_a_broker_is_not_cut_off_from_itself(broker: ControlledBroker) -> None:
    refused = broker.reply("PUT", "/v1/network", brokers=[1])
    assert refused == (400, {"message": "brokers: 1 is this broker itself"})


def test_a_stop_does_not_wait_for_a_cut(broker: ControlledBroker) -> None:
    broker.reply("PUT", "/v1/network", clients=True)

    async def body() -> float:
        waiting = asyncio.ensure_future(broker.query(ApiKey.LIST_GROUPS, 5))
        await settle(broker)
        begun = broker.loop.time()
        await broker.node.stop()
        await asyncio.gather(waiting, return_exceptions=True)
        return broker.loop.time() - begun

    assert broker.wait(body()) < 5


def test_connections_to_other_nodes_hash_passwords_in_threads() -> None:
    """SCRAM between nodes needs it."""

    async def body() -> bytes:
        loop = asyncio.get_running_loop()
        gated = GatedLoop(loop, NetworkCuts(loop), lambda host, port: None)  # type: ignore[abstract]
        return await gated.run_in_executor(None, hashlib.pbkdf2_hmac, "sha256", b"password", b"salt", 1)

    assert asyncio.run(body()) == hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 1)
