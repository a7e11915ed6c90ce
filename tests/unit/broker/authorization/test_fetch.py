"""Fetch reads the topics that the client may read; only brokers may be replicas (CVE-2018-1288)."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.primitives import ZERO_UUID
from tests.authorization.matrix import ADMIN
from tests.unit.broker.guarded_node import GuardedNode

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NAMES = ("mine", "theirs")


@pytest.fixture
def topics(guarded: GuardedNode) -> dict[str, bytes]:
    """Return the ids of two topics with a record each; alice may read the first."""
    guarded.add("allow User:alice READ TOPIC:mine")
    ids = {name: guarded.node.create(name) for name in NAMES}
    for name in NAMES:
        guarded.node.append(name, (None, b"secret"))
    return ids


def fetch(
    guarded: GuardedNode,
    *names: str,
    version: int = 12,
    ids: dict[str, bytes] | None = None,
    at: int = 0,
    **fields: Any,
) -> Any:
    topics = [
        {
            **({"topic": name} if version < 13 else {"topic_id": (ids or {})[name]}),
            "partitions": [{"partition": 0, "fetch_offset": at, "partition_max_bytes": 1000}],
        }
        for name in names
    ]
    wanted: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "topics": topics}
    return guarded.ask(ApiKey.FETCH, version, **wanted | fields)


def found(response: Any) -> list[tuple[int, bool]]:
    """Return each partition's error, and whether it has records."""
    return [(row.error_code, bool(row.records)) for topic in response.responses for row in topic.partitions]


@pytest.mark.parametrize("version", [4, 7, 12, 13, 18])
def test_a_refused_topic_has_an_error_and_no_records(
    guarded: GuardedNode, topics: dict[str, bytes], version: int
) -> None:
    assert sorted(found(fetch(guarded, *NAMES, version=version, ids=topics))) == [(0, True), (REFUSED, False)]
    everything = fetch(guarded, *NAMES, version=version, ids=topics, principal=ADMIN)
    assert found(everything) == [(0, True)] * 2


def test_a_refused_topic_ends_the_wait_for_records_of_others(guarded: GuardedNode, topics: dict[str, bytes]) -> None:
    response = fetch(guarded, *NAMES, at=1, max_wait_ms=10_000, min_bytes=1)
    assert (REFUSED, False) in found(response)


def test_a_missing_topic_is_refused_like_an_existing_one(guarded: GuardedNode, topics: dict[str, bytes]) -> None:
    [there], [missing] = (fetch(guarded, name).responses for name in ("theirs", "missing"))
    there.topic = missing.topic
    assert there == missing


def test_a_session_gets_the_error_when_a_permission_is_revoked_and_records_when_it_is_granted(
    guarded: GuardedNode, topics: dict[str, bytes]
) -> None:
    ids = guarded.add("allow User:alice READ TOPIC:theirs")
    first = fetch(guarded, *NAMES, at=1, session_epoch=0)
    assert found(first) == [(0, False)] * 2
    session = first.session_id
    assert session

    def next_fetch(epoch: int) -> Any:
        return fetch(guarded, session_id=session, session_epoch=epoch)

    assert found(next_fetch(1)) == []
    guarded.remove(*ids)
    assert found(next_fetch(2)) == [(REFUSED, False)]
    guarded.node.append("theirs", (None, b"secret"))
    assert found(next_fetch(3)) == [(REFUSED, False)]
    guarded.add("allow User:alice READ TOPIC:theirs")
    assert found(next_fetch(4)) == [(0, True)]


def test_another_client_that_uses_a_session_is_authorized_itself(
    guarded: GuardedNode, topics: dict[str, bytes]
) -> None:
    session = fetch(guarded, "mine", session_epoch=0).session_id
    stolen = fetch(guarded, session_id=session, session_epoch=1, principal="User:mallory")
    assert found(stolen) == [(REFUSED, False)]


@pytest.mark.parametrize("replica", [0, 1])
@pytest.mark.parametrize("version", [4, 12, 14, 15, 18])
def test_cve_2018_1288_only_a_client_with_cluster_action_can_be_a_replica(
    guarded: GuardedNode, topics: dict[str, bytes], version: int, replica: int
) -> None:
    state = {"replica_id": replica, "replica_epoch": -1}
    as_replica: dict[str, Any] = {"replica_id": replica} if version < 15 else {"replica_state": state}
    refused = fetch(guarded, "mine", version=version, ids=topics, **as_replica)
    assert found(refused) == [(REFUSED, False)]
    [topic] = refused.responses
    assert (topic.topic, topic.topic_id) == (("mine", ZERO_UUID) if version < 13 else ("", topics["mine"]))
    guarded.add("allow User:alice CLUSTER_ACTION CLUSTER:kafka-cluster")
    assert found(fetch(guarded, "mine", version=version, ids=topics, **as_replica)) != [(REFUSED, False)]


def test_a_client_that_claims_to_be_a_replica_gets_no_session(guarded: GuardedNode, topics: dict[str, bytes]) -> None:
    sessions = guarded.node.replicas.fetch_sessions
    refused = fetch(guarded, "mine", session_epoch=0, replica_id=1)
    assert (refused.session_id, len(sessions)) == (0, 0)
    session = fetch(guarded, "mine", session_epoch=0).session_id
    unknown = fetch(guarded, session_id=session, session_epoch=1, replica_id=1)
    assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert found(fetch(guarded, session_id=session, session_epoch=1)) == [(0, True)]


def test_each_refused_topic_of_a_fetch_is_counted_and_logged_once(
    guarded: GuardedNode, topics: dict[str, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    partitions = [{"partition": number, "fetch_offset": 0, "partition_max_bytes": 1000} for number in (0, 1)]
    wanted = [{"topic": name, "partitions": partitions} for name in (*NAMES, "missing")]
    for fetches in (1, 2):
        fetch(guarded, topics=wanted)
        assert guarded.authorizer.refusals == 2 * fetches
    assert [record.getMessage() for record in caplog.records if record.name == "broker.audit"] == [
        'Refused: principal="User:alice" host="127.0.0.1" operation=READ resource=TOPIC:"theirs" api=Fetch '
        'client="client"'
    ]
