"""Transactional ids are used and shown where the client may do so; idempotent producers need little."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.authorization.matrix import ADMIN
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.guarded_node import SETTINGS, GuardedNode

TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ID_REFUSED, CLUSTER_REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def start_coordinator(guarded: GuardedNode) -> GuardedNode:
    """Create the topic of the transaction coordinator, and wait until it serves."""
    while guarded.ask(ApiKey.FIND_COORDINATOR, 3, principal=ADMIN, key="x", key_type=1).error_code:
        guarded.node.pass_time(0.1)
    while init(guarded, "x", principal=ADMIN):
        guarded.node.pass_time(0.1)
    return guarded


def init(guarded: GuardedNode, transactional_id: str | None, version: int = 4, **more: Any) -> int:
    fields: dict[str, Any] = {"transactional_id": transactional_id, "transaction_timeout_ms": 60_000}
    return int(guarded.ask(ApiKey.INIT_PRODUCER_ID, version, **fields, **more).error_code)


@pytest.mark.parametrize(
    "line",
    [
        "allow User:alice IDEMPOTENT_WRITE CLUSTER:kafka-cluster",
        "allow User:alice WRITE TOPIC:any",
        "allow User:alice WRITE TOPIC:a*",
    ],
)
def test_an_idempotent_producer_needs_a_topic_that_it_may_write_to(guarded: GuardedNode, line: str) -> None:
    assert init(guarded, None) == CLUSTER_REFUSED
    guarded.add("allow User:alice READ TOPIC:*")
    assert init(guarded, None) == CLUSTER_REFUSED
    guarded.add(line)
    assert init(guarded, None) == 0


@pytest.mark.parametrize("version", [0, 4, 5])
def test_a_transactional_producer_needs_its_id(guarded: GuardedNode, version: int) -> None:
    start_coordinator(guarded)
    guarded.add("allow User:alice WRITE TOPIC:*", "allow User:alice WRITE TRANSACTIONAL_ID:mine")
    assert init(guarded, "theirs", version) == ID_REFUSED
    assert init(guarded, "mine", version) == 0
    guarded.add("allow User:alice DESCRIBE TRANSACTIONAL_ID:shown")
    assert init(guarded, "shown", version) == ID_REFUSED


def test_two_phase_commit_needs_a_permission_of_its_own(new_node: NewNode) -> None:
    node = new_node(None, **SETTINGS | {"transaction_two_phase_commit_enable": "true"})
    node.start()
    guarded = start_coordinator(GuardedNode(node))
    guarded.add("allow User:alice WRITE TRANSACTIONAL_ID:mine")
    assert init(guarded, "mine", 6) == 0
    assert init(guarded, "mine", 6, enable_2pc=True) == ID_REFUSED
    guarded.add("allow User:alice TWO_PHASE_COMMIT TRANSACTIONAL_ID:mine")
    assert init(guarded, "mine", 6, enable_2pc=True) == 0


def add_partitions(guarded: GuardedNode, *topics: str, version: int = 3) -> dict[str, int]:
    response = guarded.ask(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        version,
        v3_and_below_transactional_id="mine",
        v3_and_below_producer_id=0,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[{"name": name, "partitions": [0]} for name in topics],
    )
    return {
        topic.name: topic.results_by_partition[0].partition_error_code
        for topic in response.results_by_topic_v3_and_below
    }


def test_partitions_are_added_all_or_none(guarded: GuardedNode) -> None:
    start_coordinator(guarded)
    for name in ("t1", "t2"):
        guarded.node.create(name)
    assert add_partitions(guarded, "t1", "t2") == {"t1": ID_REFUSED, "t2": ID_REFUSED}
    guarded.add("allow User:alice WRITE TRANSACTIONAL_ID:mine", "allow User:alice WRITE TOPIC:t1")
    guarded.add("allow User:alice WRITE TOPIC:missing", "allow User:alice ALL TOPIC:__consumer_offsets")
    assert add_partitions(guarded, "t1", "t2", "missing", "__consumer_offsets") == {
        "t1": ErrorCode.OPERATION_NOT_ATTEMPTED,
        "t2": TOPIC_REFUSED,
        "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "__consumer_offsets": TOPIC_REFUSED,
    }
    assert add_partitions(guarded, "t1") == {"t1": ErrorCode.INVALID_PRODUCER_ID_MAPPING}


@pytest.mark.parametrize("version", [4, 5])
def test_batched_requests_are_for_brokers(guarded: GuardedNode, version: int) -> None:
    start_coordinator(guarded)
    guarded.add("allow User:alice WRITE TRANSACTIONAL_ID:*", "allow User:alice WRITE TOPIC:*")
    transaction = {"transactional_id": "x", "producer_id": 0, "producer_epoch": 0, "topics": []}
    refused = guarded.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=[transaction])
    assert refused.error_code == CLUSTER_REFUSED
    guarded.add("allow User:alice CLUSTER_ACTION CLUSTER:kafka-cluster")
    assert guarded.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=[transaction]).error_code == 0


def test_ids_and_their_topics_are_shown_that_the_client_may_describe(guarded: GuardedNode) -> None:
    start_coordinator(guarded)
    for name in ("t1", "t2"):
        guarded.node.create(name)
    producers = {}
    for name in ("mine", "theirs"):
        wanted: dict[str, Any] = {"transactional_id": name, "transaction_timeout_ms": 60_000}
        producers[name] = guarded.ask(ApiKey.INIT_PRODUCER_ID, 4, principal=ADMIN, **wanted)
        added = guarded.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            principal=ADMIN,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producers[name].producer_id,
            v3_and_below_producer_epoch=producers[name].producer_epoch,
            v3_and_below_topics=[{"name": topic, "partitions": [0]} for topic in ("t1", "t2")],
        )
        assert not added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    guarded.add("allow User:alice DESCRIBE TRANSACTIONAL_ID:mine", "allow User:alice READ TOPIC:t2")
    listed = guarded.ask(ApiKey.LIST_TRANSACTIONS, 2, state_filters=[], producer_id_filters=[]).transaction_states
    assert [one.transactional_id for one in listed] == ["mine"]
    described = guarded.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["theirs", "mine", "none"])
    shown = {
        one.transactional_id: (one.error_code, one.producer_id, [topic.topic for topic in one.topics])
        for one in described.transaction_states
    }
    assert shown == {
        "mine": (0, producers["mine"].producer_id, ["t2"]),
        "theirs": (ID_REFUSED, 0, []),
        "none": (ID_REFUSED, 0, []),
    }
