"""The sweep after a test."""

from __future__ import annotations

import pytest

from tests.unit.broker.control.controlled_broker import ControlledBroker
from tests.unit.broker.control.members import OneMember, enter


@pytest.fixture
def left(broker: ControlledBroker) -> ControlledBroker:
    """Leave topics a1, a2 and b, and the groups a1 and b with a member each."""
    for topic in ("a1", "a2", "b"):
        broker.post("/v1/topics", topic=topic)
    for group in ("a1", "b"):
        enter(OneMember(broker, group, topic="b"))
    return broker


def topics(broker: ControlledBroker) -> list[str]:
    return [one["topic"] for one in broker.get("/v1/topics").content["topics"] if not one["internal"]]


def groups(broker: ControlledBroker) -> list[str]:
    return [one["group"] for one in broker.get("/v1/groups").content["groups"]]


def test_what_begins_with_the_prefix_is_deleted(left: ControlledBroker) -> None:
    swept = left.post("/v1/sweep", prefix="a").content
    assert swept == {"topics": ["a1", "a2"], "groups": {"a1": ["test"]}, "transactions": [], "faults": 0}
    assert topics(left) == ["b"]
    assert groups(left) == ["b"]


def test_what_is_named_is_deleted(left: ControlledBroker) -> None:
    left.post("/v1/sweep", topics=["b", "missing"], groups=["a1"])
    assert topics(left) == ["a1", "a2"]
    assert groups(left) == ["b"]


def test_everything_but_what_is_kept_is_deleted_except_internal_topics(left: ControlledBroker) -> None:
    swept = left.post("/v1/sweep", keep_topics=["b"]).content
    assert swept == {"topics": ["a1", "a2"], "groups": {"a1": ["test"], "b": ["test"]}, "transactions": [], "faults": 0}
    assert left.post("/v1/sweep", keep_groups=[]).content == {
        "topics": ["b"],
        "groups": {},
        "transactions": [],
        "faults": 0,
    }
    assert len(left.get("/v1/topics").content["topics"]) == 1


def test_what_a_sweep_would_delete_is_listed_without_internal_topics(left: ControlledBroker) -> None:
    assert left.get("/v1/sweep").content == {"topics": ["a1", "a2", "b"], "groups": ["a1", "b"]}


def test_a_sweep_of_everything_deletes_the_faults(broker: ControlledBroker) -> None:
    broker.post("/v1/faults")
    assert broker.post("/v1/sweep", prefix="a").content["faults"] == 0
    assert broker.post("/v1/sweep", keep_topics=[]).content["faults"] == 1
    assert broker.get("/v1/faults").content == {"faults": []}


def test_a_sweep_of_nothing_is_refused(broker: ControlledBroker) -> None:
    refused = broker.post("/v1/sweep")
    assert refused == (400, {"message": "name topics, groups or a prefix to delete, or topics and groups to keep"})
