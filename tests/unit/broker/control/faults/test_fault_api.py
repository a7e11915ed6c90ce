"""The operations on fault rules; what rules do is in `test_fault_injector.py`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from protocol.api import ApiKey
from tests.unit.broker.control.controlled_broker import ControlledBroker


def test_a_rule_is_returned_with_its_id_counts_and_what_was_given(broker: ControlledBroker) -> None:
    created = broker.post(
        "/v1/faults", api=["Metadata", 18], count=2, action={"error": "unknown_server_error", "when": "after"}
    )
    assert created == (
        201,
        {
            "id": 1,
            "matches": 0,
            "hits": 0,
            "held": 0,
            "api": ["Metadata", 18],
            "count": 2,
            "action": {"error": "unknown_server_error", "when": "after"},
        },
    )
    broker.call(ApiKey.METADATA, 12, topics=[])
    found = broker.get("/v1/faults").content["faults"]
    assert [(one["id"], one["matches"], one["hits"]) for one in found] == [(1, 1, 1)]
    assert broker.get("/v1/faults/1").content == found[0]


def test_a_rule_without_an_action_only_counts(broker: ControlledBroker) -> None:
    broker.post("/v1/faults")
    assert broker.call(ApiKey.METADATA, 12, topics=[]).topics == []
    assert broker.get("/v1/faults/1").content["hits"] == 1


def test_a_deleted_rule_acts_no_more(broker: ControlledBroker) -> None:
    broker.post("/v1/faults", api="ListGroups", action={"error": "COORDINATOR_NOT_AVAILABLE"})
    assert broker.call(ApiKey.LIST_GROUPS, 5).error_code
    assert broker.reply("DELETE", "/v1/faults/1").content["hits"] == 1
    assert not broker.call(ApiKey.LIST_GROUPS, 5).error_code
    assert broker.reply("DELETE", "/v1/faults/1") == (
        404,
        {"message": "there is no fault 1; there are: none"},
    )


def test_all_rules_are_deleted_together(broker: ControlledBroker) -> None:
    for _ in range(2):
        broker.post("/v1/faults")
    assert broker.reply("DELETE", "/v1/faults").content == {"deleted": 2}
    assert broker.get("/v1/faults").content == {"faults": []}


def test_a_wait_for_hits_is_met_by_a_request(broker: ControlledBroker) -> None:
    broker.post("/v1/faults", api="Metadata", nth=2)

    async def both() -> Any:
        waiting = asyncio.ensure_future(broker.ask("POST", "/v1/faults/1/wait", hits=1, timeout_ms=30_000))
        await broker.query(ApiKey.METADATA, 12, topics=[])
        done, _ = await asyncio.wait((waiting,), timeout=0.05)
        assert not done
        await broker.query(ApiKey.METADATA, 12, topics=[])
        return (await waiting).content

    assert broker.wait(both()) == {
        "met": True,
        "message": "fault 1 has 1 hit: yes",
        "seen": {"id": 1, "matches": 2, "hits": 1, "held": 0},
    }


def test_a_wait_for_hits_says_how_many_requests_matched(broker: ControlledBroker) -> None:
    broker.post("/v1/faults", api="Metadata", nth=2)
    broker.call(ApiKey.METADATA, 12, topics=[])
    waited = broker.post("/v1/faults/1/wait", hits=3, timeout_ms=20)
    assert waited.message == "fault 1 has 3 hits: not within 0.02 s; it has 0 of 1 matching requests"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"api": "Prodce"}, "api: this broker serves no API Prodce; did you mean Produce?"),
        ({"api": 999}, "api: this broker serves no API 999; there are: "),
        ({"action": {}}, "action: it has nothing; name one of error, delay_ms, disconnect, "),
        ({"action": {"error": "X", "delay_ms": 1}}, "action: it has error and delay_ms; name one of "),
        ({"action": {"error": "NOT_LEADER"}}, "action.error: there is no error NOT_LEADER; did you mean NOT_"),
        ({"action": {"error": "NONE"}}, "action.error: NONE is no error; name another one"),
        (
            {"api": "Heartbeat", "topic": "t"},
            "topic: a rule for Heartbeat cannot have one; it can have client_id, group, broker, sender",
        ),
        (
            {"api": ["Produce", "Heartbeat"], "partition": 0},
            "partition: a rule for Heartbeat cannot have one; it can have client_id, group, broker, sender",
        ),
        (
            {"api": "Fetch", "group": "g"},
            "group: a rule for Fetch cannot have one; it can have topic, partition, client_id, broker, sender",
        ),
        ({"api": "JoinGroup", "transactional_id": "t"}, "transactional_id: a rule for JoinGroup cannot have one; "),
        (
            {"api": "Produce", "action": {"corrupt": "records"}},
            "action.corrupt: only responses to Fetch have records; corrupt body, correlation_id or truncate",
        ),
        (
            {"action": {"disconnect": "before", "when": "after"}},
            "action.when: it belongs to error and delay_ms; write disconnect: after",
        ),
        ({"action": {"corrupt": "all"}}, "action.corrupt: 'all' is not one of body, records, correlation_id, truncate"),
        ({"probability": 2}, "probability: 2 is not a number from 0 to 1"),
        ({"nth": 0}, "nth: 0 is not an integer from 1"),
    ],
)
def test_an_invalid_rule_is_refused(broker: ControlledBroker, body: dict[str, Any], message: str) -> None:
    refused = broker.post("/v1/faults", **body)
    assert refused.status == 400
    assert refused.message.startswith(message)
    assert broker.get("/v1/faults").content == {"faults": []}


@pytest.mark.parametrize("path", ["/v1/faults/1", "/v1/faults/x"])
def test_an_unknown_rule_is_answered_with_the_known_ones(broker: ControlledBroker, path: str) -> None:
    broker.post("/v1/faults")
    broker.post("/v1/faults")
    broker.reply("DELETE", "/v1/faults/1")
    assert broker.get(path).message == f"there is no fault {path.rpartition('/')[2]}; there are: 2"
