"""Produce appends the batches of the topics that the client may write to, and of no others."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.record_batch import build_batch
from tests.authorization.matrix import ADMIN, CLOSED
from tests.unit.broker.guarded_node import GuardedNode

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def topics(guarded: GuardedNode) -> dict[str, bytes]:
    """Return the ids of two topics; alice may write to the first."""
    guarded.add("allow User:alice WRITE TOPIC:mine")
    return {name: guarded.node.create(name) for name in ("mine", "theirs")}


def produce(
    guarded: GuardedNode,
    *names: str,
    version: int = 12,
    acks: int = -1,
    ids: dict[str, bytes] | None = None,
    **more: Any,
) -> Any:
    """Send one batch to partition 0 of each topic, by id from version 13 on."""
    batch = more.pop("batch", {})
    records = bytes(build_batch([(None, b"v")], timestamp_ms=guarded.node.now_ms(), **batch))
    return guarded.ask(
        ApiKey.PRODUCE,
        version,
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            {
                **({"name": name} if version < 13 else {"topic_id": (ids or {})[name]}),
                "partition_data": [{"index": 0, "records": records}],
            }
            for name in names
        ],
        **more,
    )


def errors(response: Any) -> list[int]:
    return [row.error_code for topic in response.responses for row in topic.partition_responses]


def stored(guarded: GuardedNode) -> tuple[int, int]:
    return len(guarded.node.stored("mine")), len(guarded.node.stored("theirs"))


@pytest.mark.parametrize("version", [3, 9, 12, 13])
@pytest.mark.parametrize("acks", [1, -1])
def test_a_refused_topic_gets_an_error_and_no_batch(
    guarded: GuardedNode, topics: dict[str, bytes], version: int, acks: int
) -> None:
    assert errors(produce(guarded, "theirs", version=version, acks=acks, ids=topics)) == [REFUSED]
    assert errors(produce(guarded, "mine", version=version, acks=acks, ids=topics)) == [0]
    assert errors(produce(guarded, "theirs", "mine", version=version, acks=acks, ids=topics)) == [0, REFUSED]
    assert stored(guarded) == (2, 0)
    assert errors(produce(guarded, "theirs", "mine", version=version, ids=topics, principal=ADMIN)) == [0, 0]


def test_a_missing_topic_is_refused_like_an_existing_one(guarded: GuardedNode, topics: dict[str, bytes]) -> None:
    answers = [produce(guarded, name).responses[0] for name in ("theirs", "missing")]
    answers[0].name = answers[1].name
    assert answers[0] == answers[1]
    assert errors(produce(guarded, "x", version=13, ids={"x": b"?" * 16})) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_without_acknowledgements_a_refused_topic_closes_the_connection(
    guarded: GuardedNode, topics: dict[str, bytes]
) -> None:
    assert produce(guarded, "mine", acks=0) is None
    assert produce(guarded, "theirs", acks=0) == CLOSED
    assert produce(guarded, "theirs", "mine", acks=0) == CLOSED
    assert stored(guarded) == (2, 0)


def test_an_entry_for_a_group_does_not_cover_the_topic_of_its_name(
    guarded: GuardedNode, topics: dict[str, bytes]
) -> None:
    guarded.add("allow User:alice ALL GROUP:theirs")
    assert errors(produce(guarded, "theirs")) == [REFUSED]
    assert stored(guarded) == (0, 0)


def test_permissions_take_effect_with_the_next_request(guarded: GuardedNode, topics: dict[str, bytes]) -> None:
    [added] = guarded.add("allow User:alice WRITE TOPIC:theirs")
    assert errors(produce(guarded, "theirs")) == [0]
    guarded.add("deny User:* WRITE TOPIC:mine from 127.0.0.2")
    assert errors(produce(guarded, "mine")) == [0]
    assert errors(produce(guarded, "mine", host="127.0.0.2")) == [REFUSED]
    guarded.remove(added)
    assert errors(produce(guarded, "theirs")) == [REFUSED]


TRANSACTIONAL = {"is_transactional": True, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}


@pytest.mark.parametrize("version", [3, 11, 12])
def test_transactional_batches_need_the_permission_for_the_transactional_id(
    guarded: GuardedNode, topics: dict[str, bytes], version: int
) -> None:
    refused = produce(guarded, "mine", version=version, transactional_id="id", batch=TRANSACTIONAL)
    assert errors(refused) == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    assert errors(produce(guarded, "mine", version=version, transactional_id="id")) == [0]
    guarded.add("allow User:alice WRITE TRANSACTIONAL_ID:id")
    allowed = produce(guarded, "mine", version=version, transactional_id="id", batch=TRANSACTIONAL)
    assert errors(allowed) == [ErrorCode.NOT_ENOUGH_REPLICAS]  # the transaction has no coordinator


def test_one_transactional_batch_needs_the_permission_for_the_whole_request(
    guarded: GuardedNode, topics: dict[str, bytes]
) -> None:
    guarded.add("allow User:alice WRITE TOPIC:theirs")
    batches: dict[str, dict[str, Any]] = {"mine": {}, "theirs": TRANSACTIONAL}
    rows = [
        {"name": name, "partition_data": [{"index": 0, "records": bytes(build_batch([(None, b"v")], **batch))}]}
        for name, batch in batches.items()
    ]
    refused = guarded.ask(ApiKey.PRODUCE, 11, acks=-1, timeout_ms=1000, topic_data=rows, transactional_id="id")
    assert errors(refused) == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
    assert stored(guarded) == (0, 0)
