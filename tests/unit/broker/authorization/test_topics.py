"""CreateTopics and DeleteTopics do what the client may do, and show nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.primitives import ZERO_UUID
from tests.authorization.matrix import ADMIN
from tests.unit.broker.guarded_node import GuardedNode

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN_ID = b"?" * 16
LISTENERS = ("broker", "controller")


def create(guarded: GuardedNode, *names: str, version: int = 7, **more: Any) -> dict[str, Any]:
    new = [
        {"name": name, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []} for name in names
    ]
    response = guarded.ask(ApiKey.CREATE_TOPICS, version, topics=new, timeout_ms=5000, **more)
    return {topic.name: topic for topic in response.topics}


def existing(guarded: GuardedNode) -> set[str]:
    return set(guarded.node.image.topics_by_name())


@pytest.mark.parametrize("listener_type", LISTENERS)
def test_topics_are_created_where_the_client_may_create_them(guarded: GuardedNode, listener_type: str) -> None:
    guarded.add("allow User:alice CREATE TOPIC:mine*")
    created = create(guarded, "mine1", "theirs", "mine2", listener_type=listener_type)
    assert {name: topic.error_code for name, topic in created.items()} == {"mine1": 0, "mine2": 0, "theirs": REFUSED}
    assert created["theirs"].error_message == "Authorization failed."
    assert existing(guarded) == {"mine1", "mine2"}
    assert create(guarded, "theirs", listener_type=listener_type)["theirs"].error_code == REFUSED
    guarded.add("allow User:alice CREATE CLUSTER:kafka-cluster")
    assert create(guarded, "theirs", listener_type=listener_type)["theirs"].error_code == 0


def test_an_existing_topic_is_refused_like_a_missing_one(guarded: GuardedNode) -> None:
    guarded.node.create("there")
    there, missing = (create(guarded, name)[name] for name in ("there", "missing"))
    there.name = missing.name
    assert there == missing


def test_configs_of_a_new_topic_are_hidden_without_the_permission_to_describe_them(guarded: GuardedNode) -> None:
    guarded.add("allow User:alice CREATE TOPIC:*", "allow User:alice ALTER_CONFIGS TOPIC:shown")
    created = create(guarded, "shown", "hidden")
    shown, hidden = created["shown"], created["hidden"]
    assert (shown.topic_config_error_code, shown.num_partitions, shown.replication_factor) == (0, 2, 1)
    assert shown.configs
    assert (hidden.topic_config_error_code, hidden.num_partitions, hidden.replication_factor) == (REFUSED, -1, -1)
    assert not hidden.configs
    assert hidden.topic_id == guarded.node.image.topics_by_name()["hidden"].topic_id


def test_a_name_that_occurs_twice_and_the_metadata_log_are_invalid_for_everyone(guarded: GuardedNode) -> None:
    created = create(guarded, "twice", "twice", "__cluster_metadata", "once")
    assert {name: topic.error_code for name, topic in created.items()} == {
        "twice": ErrorCode.INVALID_REQUEST,
        "__cluster_metadata": ErrorCode.INVALID_REQUEST,
        "once": REFUSED,
    }


def delete(
    guarded: GuardedNode, *names: str, ids: tuple[bytes, ...] = (), version: int = 6, **more: Any
) -> list[tuple[str | None, bytes, int]]:
    if version < 6:
        wanted: dict[str, Any] = {"topic_names": list(names)}
    else:
        wanted = {
            "topics": [{"name": name, "topic_id": ZERO_UUID} for name in names]
            + [{"name": None, "topic_id": topic_id} for topic_id in ids]
        }
    response = guarded.ask(ApiKey.DELETE_TOPICS, version, timeout_ms=5000, **wanted, **more)
    return [(topic.name, topic.topic_id, topic.error_code) for topic in response.responses]


@pytest.mark.parametrize("version", [1, 5, 6])
@pytest.mark.parametrize("listener_type", LISTENERS)
def test_topics_are_deleted_where_the_client_may_delete_them(
    guarded: GuardedNode, version: int, listener_type: str
) -> None:
    for name in ("mine", "theirs"):
        guarded.node.create(name)
    guarded.add("allow User:alice DELETE TOPIC:mine")
    deleted = delete(guarded, "theirs", "mine", version=version, listener_type=listener_type)
    assert {name: code for name, _, code in deleted} == {"mine": 0, "theirs": REFUSED}
    assert existing(guarded) == {"theirs"}
    guarded.add("allow User:alice DELETE CLUSTER:kafka-cluster")
    assert [code for *_, code in delete(guarded, "theirs", version=version)] == [0]


def test_what_the_client_may_not_describe_looks_the_same_whether_it_exists_or_not(guarded: GuardedNode) -> None:
    guarded.node.create("there")
    assert delete(guarded, "there") == [("there", ZERO_UUID, REFUSED)]
    assert delete(guarded, "missing") == [("missing", ZERO_UUID, REFUSED)]


def test_by_id_the_name_is_returned_only_to_who_may_describe_it(guarded: GuardedNode) -> None:
    there, seen, mine = (guarded.node.create(name) for name in ("there", "seen", "mine"))
    guarded.add("allow User:alice DESCRIBE TOPIC:seen", "allow User:alice DELETE TOPIC:mine")
    deleted = delete(guarded, ids=(there, seen, mine, UNKNOWN_ID))
    assert sorted(deleted, key=repr) == sorted(
        [
            (None, there, REFUSED),
            ("seen", seen, REFUSED),
            ("mine", mine, 0),
            (None, UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID),
        ],
        key=repr,
    )
    assert existing(guarded) == {"there", "seen"}


def test_by_name_the_id_is_not_returned_with_a_refusal(guarded: GuardedNode) -> None:
    guarded.node.create("seen")
    guarded.add("allow User:alice DESCRIBE TOPIC:*", "deny User:alice DESCRIBE TOPIC:blind")
    assert delete(guarded, "seen") == [("seen", ZERO_UUID, REFUSED)]
    assert delete(guarded, "missing") == [("missing", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    guarded.add("allow User:alice DELETE TOPIC:blind")
    guarded.node.create("blind")
    assert delete(guarded, "blind") == [("blind", ZERO_UUID, REFUSED)]


def test_a_topic_named_twice_is_invalid_whatever_the_client_may_do(guarded: GuardedNode) -> None:
    guarded.node.create("there")
    assert delete(guarded, "there", "there") == [("there", ZERO_UUID, ErrorCode.INVALID_REQUEST)]
    assert existing(guarded) == {"there"}
    assert [code for *_, code in delete(guarded, "there", principal=ADMIN)] == [0]
