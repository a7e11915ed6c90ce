"""Waits for groups: met by an event, or ended with what was seen instead."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.broker.control.controlled_broker import ControlledBroker
from tests.unit.broker.control.members import OneMember, enter


@pytest.fixture
def member(broker: ControlledBroker) -> OneMember:
    """Return a future member of group g."""
    broker.post("/v1/topics", topic="t")
    return OneMember(broker, "g")


def waits_meanwhile(broker: ControlledBroker, path: str, work: Any, **body: Any) -> Any:
    """Return the response to a wait that begins before `work`."""

    async def both() -> Any:
        waiting = asyncio.ensure_future(broker.ask("POST", path, timeout_ms=30_000, **body))
        done, _ = await asyncio.wait((waiting,), timeout=0.05)
        assert not done
        await work
        return (await waiting).content

    return broker.wait(both())


def test_a_wait_is_met_when_the_members_have_their_assignments(broker: ControlledBroker, member: OneMember) -> None:
    waited = waits_meanwhile(broker, "/v1/wait/group-stable", member.enter(), group="g", members=1)
    assert waited["met"] is True
    assert waited["seen"]["state"] == "Stable"


def test_a_group_that_is_stable_with_other_members_is_waited_for(broker: ControlledBroker, member: OneMember) -> None:
    enter(member)
    waited = broker.post("/v1/wait/group-stable", group="g", members=2, timeout_ms=20)
    assert waited.message == (
        "group g is stable with 2 members: not within 0.02 s; group g is Stable in generation 1; "
        f"it has 1 member: {member.member_id} (client test at 127.0.0.1)"
    )
    assert waited.content["seen"]["members"][0]["member_id"] == member.member_id


def test_a_wait_for_no_members_is_met_when_the_last_one_is_gone(broker: ControlledBroker, member: OneMember) -> None:
    enter(member)
    expiry = broker.ask("POST", "/v1/groups/g/expire", member=member.member_id)
    assert waits_meanwhile(broker, "/v1/wait/group-stable", expiry, group="g", members=0)["met"] is True
    assert broker.post("/v1/wait/group-stable", group="unknown", members=0).content["met"] is True


def test_a_wait_for_an_unknown_group_says_that_no_member_joined(broker: ControlledBroker) -> None:
    waited = broker.post("/v1/wait/group-stable", group="g", timeout_ms=20)
    assert waited.message.endswith("no member of group g has joined, and it has no offsets")


def test_a_wait_for_lag_is_met_by_a_commit(broker: ControlledBroker, member: OneMember) -> None:
    enter(member)
    broker.post("/v1/topics/t/records", records=[{"value": "a"}, {"value": "b"}])
    broker.wait(member.commit(1))
    waited = waits_meanwhile(broker, "/v1/wait/group-lag", member.commit(2), group="g")
    assert waited["met"] is True
    assert [one["lag"] for one in waited["seen"]["offsets"]] == [0]


def test_records_never_committed_count_as_lag_from_the_log_start(broker: ControlledBroker, member: OneMember) -> None:
    enter(member)
    broker.post("/v1/topics/t/records", records=[{"value": "a"}, {"value": "b"}])
    waited = broker.post("/v1/wait/group-lag", group="g", lag=1, timeout_ms=20)
    assert waited.content["met"] is False
    assert "its lag is 2; t-0: committed None of 2; group g is Stable" in waited.message
    assert broker.post("/v1/wait/group-lag", group="g", lag=2).content["met"] is True


def test_lag_is_that_of_the_named_topics(broker: ControlledBroker, member: OneMember) -> None:
    enter(member)
    broker.post("/v1/topics", topic="other")
    broker.post("/v1/topics/t/records", records=[{"value": "a"}])
    assert broker.post("/v1/wait/group-lag", group="g", topics=["other"]).content["met"] is True


def test_a_wait_for_lag_of_an_unknown_group_ends_with_its_absence(broker: ControlledBroker) -> None:
    waited = broker.post("/v1/wait/group-lag", group="g", timeout_ms=20)
    assert waited.content["met"] is False
    assert waited.message.endswith("no member of group g has joined, and it has no offsets")
