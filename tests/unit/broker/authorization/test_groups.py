"""Groups, their coordinators and offsets are shown to clients that may describe them."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.authorization.matrix import ADMIN
from tests.unit.broker.guarded_node import GuardedNode

GROUP_REFUSED, TOPIC_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
ID_REFUSED, CLUSTER_REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.fixture
def offsets(guarded: GuardedNode) -> dict[str, bytes]:
    """Commit offsets of two topics in the groups `mine` and `theirs`; return the topics' ids."""
    ids = {name: guarded.node.create(name) for name in ("t1", "t2")}
    while guarded.ask(ApiKey.FIND_COORDINATOR, 3, principal=ADMIN, key="mine").error_code:
        guarded.node.pass_time(0.1)
    while guarded.ask(ApiKey.LIST_GROUPS, 4, principal=ADMIN).error_code:
        guarded.node.pass_time(0.1)
    for group in ("mine", "theirs"):
        committed = commit(guarded, group, principal=ADMIN)
        assert committed == {"t1": 0, "t2": 0}
    return ids


def commit(guarded: GuardedNode, group: str, **more: Any) -> dict[str, int]:
    response = guarded.ask(
        ApiKey.OFFSET_COMMIT,
        8,
        group_id=group,
        member_id="",
        topics=[
            {
                "name": name,
                "partitions": [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}],
            }
            for name in ("t1", "t2")
        ],
        **more,
    )
    return {topic.name: topic.partitions[0].error_code for topic in response.topics}


def test_offsets_are_committed_in_groups_and_of_topics_that_the_client_may_read(
    guarded: GuardedNode, offsets: dict[str, bytes]
) -> None:
    assert commit(guarded, "mine") == {"t1": GROUP_REFUSED, "t2": GROUP_REFUSED}
    guarded.add("allow User:alice READ GROUP:mine")
    assert commit(guarded, "mine") == {"t1": TOPIC_REFUSED, "t2": TOPIC_REFUSED}
    guarded.add("allow User:alice READ TOPIC:t2")
    assert commit(guarded, "mine") == {"t1": TOPIC_REFUSED, "t2": 0}
    assert commit(guarded, "theirs") == {"t1": GROUP_REFUSED, "t2": GROUP_REFUSED}


def fetched(guarded: GuardedNode, version: int, topics: list[str] | None, ids: dict[str, bytes]) -> Any:
    """Return the error of the group, and each topic's error and offset."""
    wanted: Any = topics and [
        {**({"name": name} if version < 10 else {"topic_id": ids[name]}), "partition_indexes": [0]} for name in topics
    ]
    if version < 8:
        answer = guarded.ask(ApiKey.OFFSET_FETCH, version, group_id="mine", topics=wanted)
    else:
        [answer] = guarded.ask(ApiKey.OFFSET_FETCH, version, groups=[{"group_id": "mine", "topics": wanted}]).groups
    names = {topic_id: name for name, topic_id in ids.items()}
    return answer.error_code, {
        topic.name or names[topic.topic_id]: (topic.partitions[0].error_code, topic.partitions[0].committed_offset)
        for topic in answer.topics
    }


@pytest.mark.parametrize("version", [1, 2, 7, 8, 9, 10])
def test_offsets_are_fetched_of_topics_that_the_client_may_describe(
    guarded: GuardedNode, offsets: dict[str, bytes], version: int
) -> None:
    error, topics = fetched(guarded, version, ["t1"], offsets)
    assert (error, topics) == (GROUP_REFUSED, {}) if version > 1 else topics == {"t1": (GROUP_REFUSED, -1)}
    guarded.add("allow User:alice READ GROUP:mine", "allow User:alice DESCRIBE TOPIC:t2")
    assert fetched(guarded, version, ["t1", "t2"], offsets) == (0, {"t2": (0, 5), "t1": (TOPIC_REFUSED, -1)})
    assert fetched(guarded, version, ["t1"], offsets) == (0, {"t1": (TOPIC_REFUSED, -1)})
    if version > 1:
        assert fetched(guarded, version, None, offsets) == (0, {"t2": (0, 5)})


def test_offsets_are_deleted_of_topics_that_the_client_may_read(
    guarded: GuardedNode, offsets: dict[str, bytes]
) -> None:
    def deleted(group: str) -> tuple[int, dict[str, int]]:
        topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in offsets]
        response = guarded.ask(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=topics)
        return response.error_code, {topic.name: topic.partitions[0].error_code for topic in response.topics}

    assert deleted("mine") == (GROUP_REFUSED, {})
    guarded.add("allow User:alice DELETE GROUP:*", "allow User:alice READ TOPIC:t2")
    assert deleted("mine") == (0, {"t2": 0, "t1": TOPIC_REFUSED})
    assert deleted("unknown") == (ErrorCode.GROUP_ID_NOT_FOUND, {})


def test_each_group_of_a_request_has_its_own_result(guarded: GuardedNode, offsets: dict[str, bytes]) -> None:
    guarded.add("allow User:alice DESCRIBE GROUP:mine", "allow User:alice DESCRIBE TOPIC:*")
    wanted = [{"group_id": name, "topics": None} for name in ("theirs", "mine", "other")]
    groups = guarded.ask(ApiKey.OFFSET_FETCH, 9, groups=wanted).groups
    assert [(group.group_id, group.error_code, len(group.topics)) for group in groups] == [
        ("theirs", GROUP_REFUSED, 0),
        ("mine", 0, 2),
        ("other", GROUP_REFUSED, 0),
    ]


def test_groups_are_listed_that_the_client_may_describe(guarded: GuardedNode, offsets: dict[str, bytes]) -> None:
    def listed() -> set[str]:
        return {group.group_id for group in guarded.ask(ApiKey.LIST_GROUPS, 5, states_filter=[]).groups}

    assert listed() == set()
    guarded.add("allow User:alice READ GROUP:mine")
    assert listed() == {"mine"}
    guarded.add("allow User:alice DESCRIBE CLUSTER:kafka-cluster")
    assert listed() == {"mine", "theirs"}
    assert guarded.authorizer.refusals == 0


@pytest.mark.parametrize("version", [3, 5, 6])
def test_groups_are_described_with_the_operations_of_the_client(
    guarded: GuardedNode, offsets: dict[str, bytes], version: int
) -> None:
    guarded.add("allow User:alice READ GROUP:mine", "allow User:alice DELETE GROUP:mine")
    wanted: dict[str, Any] = {"groups": ["mine", "theirs"], "include_authorized_operations": True}
    groups = {group.group_id: group for group in guarded.ask(ApiKey.DESCRIBE_GROUPS, version, **wanted).groups}
    assert (groups["mine"].error_code, groups["mine"].authorized_operations) == (0, 1 << 3 | 1 << 6 | 1 << 8)
    assert groups["theirs"].error_code == GROUP_REFUSED
    assert groups["theirs"].authorized_operations == -(1 << 31)
    assert not groups["theirs"].group_state
    without = guarded.ask(ApiKey.DESCRIBE_GROUPS, version, groups=["mine"]).groups
    assert without[0].authorized_operations == -(1 << 31)


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_coordinators_are_found_of_what_the_client_may_describe(
    guarded: GuardedNode, offsets: dict[str, bytes], version: int
) -> None:
    guarded.add("allow User:alice READ GROUP:mine", "allow User:alice WRITE TRANSACTIONAL_ID:mine")

    def find(*keys: str, key_type: int = 0) -> list[int]:
        if version >= 4:
            found = guarded.ask(ApiKey.FIND_COORDINATOR, version, key_type=key_type, coordinator_keys=list(keys))
            assert [one.key for one in found.coordinators] == list(keys)
            return [one.error_code for one in found.coordinators]
        typed: dict[str, Any] = {"key_type": key_type} if version else {}
        return [guarded.ask(ApiKey.FIND_COORDINATOR, version, key=key, **typed).error_code for key in keys]

    assert find("mine") == [0]
    assert find("theirs", "mine", "other") == [GROUP_REFUSED, 0, GROUP_REFUSED]
    if version:
        find("mine", key_type=1)
        assert find("theirs", "mine", key_type=1) == [ID_REFUSED, 0]


def test_coordinators_of_share_groups_are_for_brokers(guarded: GuardedNode) -> None:
    wanted: dict[str, Any] = {"key_type": 2, "coordinator_keys": ["g:t:0"]}
    [refused] = guarded.ask(ApiKey.FIND_COORDINATOR, 6, **wanted).coordinators
    assert refused.error_code == CLUSTER_REFUSED
    guarded.add("allow User:alice CLUSTER_ACTION CLUSTER:kafka-cluster")
    [passed] = guarded.ask(ApiKey.FIND_COORDINATOR, 6, **wanted).coordinators
    assert passed.error_code == ErrorCode.INVALID_REQUEST
