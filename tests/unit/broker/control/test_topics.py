"""Topics through the control API."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.broker.control.controlled_broker import ControlledBroker


def test_a_created_topic_is_usable_when_the_response_comes(broker: ControlledBroker) -> None:
    status, content = broker.post(
        "/v1/topics", topic="t", partitions=2, configs=[{"name": "cleanup.policy", "value": "compact"}]
    )
    assert status == 201
    assert [one["leader"] for one in content["partitions"]] == [1, 1]
    assert content["partitions"][0]["offsets"]["log_end"] == 0
    assert broker.broker.image.configs(2, "t") == {"cleanup.policy": "compact"}
    assert broker.get("/v1/topics/t").content == content
    assert broker.get("/v1/topics").content == {"topics": [{"topic": "t", "partitions": 2, "internal": False}]}


def test_a_topic_that_exists_is_a_conflict(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t")
    status, content = broker.post("/v1/topics", topic="t")
    assert (status, content["error"]) == (409, "TOPIC_ALREADY_EXISTS")


def test_an_invalid_topic_is_refused_with_the_error_of_the_protocol(broker: ControlledBroker) -> None:
    status, content = broker.post("/v1/topics", topic="a b")
    assert (status, content["error"]) == (400, "INVALID_TOPIC_EXCEPTION")
    assert content["message"].startswith("INVALID_TOPIC_EXCEPTION: ")


def test_a_deleted_topic_is_gone_when_the_response_comes(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t")
    broker.post("/v1/topics", topic="u")
    assert broker.reply("DELETE", "/v1/topics/t") == (200, {})
    assert broker.reply("DELETE", "/v1/topics/t") == (404, {"message": "there is no topic t; there are: u"})


def test_a_wait_for_a_topic_is_met_by_its_creation(broker: ControlledBroker) -> None:
    async def both() -> Any:
        waiting = asyncio.ensure_future(
            broker.ask("POST", "/v1/wait/topic", topic="t", partitions=3, timeout_ms=30_000)
        )
        done, _ = await asyncio.wait((waiting,), timeout=0.05)
        assert not done
        await broker.ask("POST", "/v1/topics", topic="t", partitions=3)
        return (await waiting).content

    waited = broker.wait(both())
    assert waited["met"] is True
    assert len(waited["seen"]["partitions"]) == 3


def test_a_wait_for_a_topic_says_what_is_missing(broker: ControlledBroker) -> None:
    waited = broker.post("/v1/wait/topic", topic="t", timeout_ms=20)
    assert waited.message == (
        "topic t is usable on broker 1 with 1 partition: not within 0.02 s; broker 1 knows no topic t, only: none"
    )
    broker.post("/v1/topics", topic="t")
    assert broker.post("/v1/wait/topic", topic="t", partitions=2, timeout_ms=20).message.endswith("it has 1 partition")
    assert broker.post("/v1/wait/topic", topic="t", leaders={"0": 1}).content["met"]
    waited = broker.post("/v1/wait/topic", topic="t", leaders={"0": 2}, timeout_ms=20)
    assert waited.message.endswith("and the leaders 2 of 0: not within 0.02 s; t-0 is led by broker 1")


def test_a_wait_for_a_log_end_is_met_by_an_append(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t")

    async def both() -> Any:
        waiting = asyncio.ensure_future(
            broker.ask("POST", "/v1/wait/log-end", topic="t", partition=0, offset=2, timeout_ms=30_000)
        )
        await broker.ask("POST", "/v1/topics/t/records", records=[{"value": "a"}])
        done, _ = await asyncio.wait((waiting,), timeout=0.05)
        assert not done
        await broker.ask("POST", "/v1/topics/t/records", records=[{"value": "b"}])
        return (await waiting).content

    assert broker.wait(both())["seen"]["high_watermark"] == 2


def test_a_wait_for_a_log_end_says_where_it_is(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t")
    waited = broker.post("/v1/wait/log-end", topic="t", partition=0, offset=2, committed=False, timeout_ms=20)
    assert waited.message == ("log end of t-0 is at least 2: not within 0.02 s; its log end is 0, its log start 0")
    missing = broker.post("/v1/wait/log-end", topic="t", partition=1, offset=2)
    assert missing == (404, {"message": "topic t has no partition 1"})
