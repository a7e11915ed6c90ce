"""What requests are about, and requests with some of their partitions only."""

from __future__ import annotations

from typing import Any

import pytest

from broker.control.faults.request_content import conditions_of, content_of, selected
from broker.routes import served_apis
from protocol.api import ApiKey, request_class
from protocol.fields import fields_of
from protocol.schema import Message
from tests.typed import present

TOPIC_ID = b"t" * 16
OTHER_ID = b"u" * 16


def topic_name(topic_id: bytes) -> str | None:
    return {TOPIC_ID: "t", OTHER_ID: "u"}.get(topic_id)


def make(api: ApiKey, /, **fields: Any) -> Any:
    """Return a request with defaults for what is not given; structs are dicts."""
    return _filled(request_class(api), fields)


def _filled(struct: Any, values: dict[str, Any]) -> Any:
    made = object.__new__(struct)
    for field in fields_of(struct):
        value = values.get(field.name, [] if field.is_list else field.default)
        if field.struct is not None and field.is_list and value is not None:
            value = [_filled(field.struct, item) for item in value]
        setattr(made, field.name, value)
    return made


BOTH = [
    {"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 1}]},
    {"name": "u", "partitions": [{"partition_index": 0}]},
]
INDEXES = [{"name": "t", "partition_indexes": [0, 1]}, {"name": "u", "partition_indexes": [0]}]
BY_ID = [
    {"topic_id": TOPIC_ID, "partition_data": [{"index": 0}]},
    {"topic_id": OTHER_ID, "partition_data": [{"index": 2}]},
]
UNKNOWN = [{"topic_id": b"?" * 16, "partition_data": [{"index": 0}]}]
GROUPS = [{"group_id": "g", "topics": INDEXES}]
REQUESTS: dict[str, tuple[Message, Any]] = {
    "Produce by id": (make(ApiKey.PRODUCE, topic_data=BY_ID), [("t", 0), ("u", 2)]),
    "Produce by name": (make(ApiKey.PRODUCE, topic_data=[{"name": "t", "partition_data": [{"index": 5}]}]), [("t", 5)]),
    "Produce of an unknown topic": (make(ApiKey.PRODUCE, topic_data=UNKNOWN), [("", 0)]),
    "ListOffsets": (make(ApiKey.LIST_OFFSETS, topics=BOTH), [("t", 0), ("t", 1), ("u", 0)]),
    "OffsetCommit": (make(ApiKey.OFFSET_COMMIT, topics=BOTH), [("t", 0), ("t", 1), ("u", 0)]),
    "OffsetFetch of one group": (make(ApiKey.OFFSET_FETCH, topics=INDEXES), [("t", 0), ("t", 1), ("u", 0)]),
    "OffsetFetch of groups": (make(ApiKey.OFFSET_FETCH, groups=GROUPS), [("t", 0), ("t", 1), ("u", 0)]),
    "Metadata": (make(ApiKey.METADATA, topics=[{"name": "t"}, {"topic_id": OTHER_ID}]), [("t", None), ("u", None)]),
    "CreateTopics": (make(ApiKey.CREATE_TOPICS, topics=[{"name": "t"}]), [("t", None)]),
    "DeleteTopics by names": (make(ApiKey.DELETE_TOPICS, topic_names=["t", "u"]), [("t", None), ("u", None)]),
    "DeleteTopics": (make(ApiKey.DELETE_TOPICS, topics=[{"name": "t"}]), [("t", None)]),
    "AddPartitionsToTxn": (
        make(ApiKey.ADD_PARTITIONS_TO_TXN, v3_and_below_topics=[{"name": "t", "partitions": [3, 4]}]),
        [("t", 3), ("t", 4)],
    ),
    "OffsetForLeaderEpoch": (
        make(ApiKey.OFFSET_FOR_LEADER_EPOCH, topics=[{"topic": "t", "partitions": [{"partition": 1}]}]),
        [("t", 1)],
    ),
    "ElectLeaders": (make(ApiKey.ELECT_LEADERS, topic_partitions=[{"topic": "t", "partitions": [1]}]), [("t", 1)]),
    "DescribeProducers": (make(ApiKey.DESCRIBE_PRODUCERS, topics=INDEXES), [("t", 0), ("t", 1), ("u", 0)]),
    "WriteTxnMarkers": (
        make(ApiKey.WRITE_TXN_MARKERS, markers=[{"topics": INDEXES}]),
        [("t", 0), ("t", 1), ("u", 0)],
    ),
    "Heartbeat": (make(ApiKey.HEARTBEAT, group_id="g"), []),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_the_partitions_of_a_request_are_found(name: str) -> None:
    request, partitions = REQUESTS[name]
    assert list(content_of(request, topic_name).partitions) == partitions
    found = {"topic", "partition"} if partitions else set()
    assert conditions_of(present(request.API_KEY)) & {"topic", "partition"} == found


@pytest.mark.parametrize("name", [name for name, (_, partitions) in REQUESTS.items() if len(partitions) > 1])
def test_a_request_is_cut_down_to_some_partitions_and_stays_as_it_was(name: str) -> None:
    request, (first, *others) = REQUESTS[name]
    assert list(content_of(selected(request, lambda one: one == first, topic_name), topic_name).partitions) == [first]
    assert list(content_of(selected(request, lambda one: one != first, topic_name), topic_name).partitions) == others
    assert list(content_of(request, topic_name).partitions) == [first, *others]


@pytest.mark.parametrize(
    ("request_", "groups", "transactional_ids"),
    [
        (make(ApiKey.JOIN_GROUP, group_id="g"), {"g"}, set()),
        (make(ApiKey.DESCRIBE_GROUPS, groups=["g", "h"]), {"g", "h"}, set()),
        (make(ApiKey.DELETE_GROUPS, groups_names=["g"]), {"g"}, set()),
        (make(ApiKey.FIND_COORDINATOR, key="g"), {"g"}, set()),
        (make(ApiKey.FIND_COORDINATOR, key_type=1, coordinator_keys=["x"]), set(), {"x"}),
        (make(ApiKey.TXN_OFFSET_COMMIT, group_id="g", transactional_id="x"), {"g"}, {"x"}),
        (make(ApiKey.ADD_PARTITIONS_TO_TXN, v3_and_below_transactional_id="x"), set(), {"x"}),
        (make(ApiKey.OFFSET_FETCH, groups=[{"group_id": "g"}, {"group_id": "h"}]), {"g", "h"}, set()),
        (make(ApiKey.PRODUCE, transactional_id="x"), set(), {"x"}),
        (make(ApiKey.PRODUCE), set(), set()),
    ],
)
def test_the_groups_and_transactions_of_a_request_are_found(
    request_: Message, groups: set[str], transactional_ids: set[str]
) -> None:
    content = content_of(request_, topic_name)
    assert set(content.groups) - {""} == groups
    assert set(content.transactional_ids) - {""} == transactional_ids
    possible = conditions_of(present(request_.API_KEY))
    assert not groups or "group" in possible
    assert not transactional_ids or "transactional_id" in possible


@pytest.mark.parametrize("key", list(served_apis("broker")), ids=lambda key: key.name)
def test_a_request_of_any_api_has_a_content(key: ApiKey) -> None:
    content_of(make(key), topic_name)
    selected(make(key), lambda _: True, topic_name)
