from __future__ import annotations

import logging
from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest
from tests.unit.broker.group_node import GroupNode

KEY = ApiKey.JOIN_GROUP
RANGE = JoinGroupRequest.Protocol(name="range", metadata=b"meta")


def join(node: GroupNode, version: int, member_id: str = "", **changes: Any) -> Any:
    fields = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [RANGE],
    }
    return node.answer(KEY, version, **(fields | changes))


@pytest.fixture
def hosting(group_node: GroupNode) -> GroupNode:
    return group_node.host()


@pytest.mark.parametrize("version", range(4))
def test_new_member_joins_at_once_in_early_versions(hosting: GroupNode, version: int) -> None:
    answer = join(hosting, version)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.leader == answer.member_id
    assert [(one.member_id, one.metadata) for one in answer.members] == [(answer.member_id, b"meta")]


@pytest.mark.parametrize("version", range(4, 10))
def test_new_member_must_rejoin_with_its_assigned_id_in_later_versions(hosting: GroupNode, version: int) -> None:
    first = join(hosting, version)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("c-")
    assert first.protocol_name == (None if version >= 7 else "")
    second = join(hosting, version, first.member_id)
    assert (second.error_code, second.member_id, second.generation_id) == (0, first.member_id, 1)
    assert second.protocol_type == ("consumer" if version >= 7 else None)


@pytest.mark.parametrize("version", range(5, 10))
def test_static_member_joins_at_once_with_an_id_based_on_its_instance_id(hosting: GroupNode, version: int) -> None:
    answer = join(hosting, version, group_instance_id="A")
    assert answer.error_code == 0
    assert answer.member_id.startswith("A-")
    assert answer.members[0].group_instance_id == "A"


@pytest.mark.parametrize("version", [3, 9])
def test_repeated_protocol_counts_once(hosting: GroupNode, version: int) -> None:
    twice = [RANGE, JoinGroupRequest.Protocol(name="range", metadata=b"last")]
    answer = join(hosting, version, protocols=twice, group_instance_id="A" if version >= 5 else None)
    assert (answer.error_code, answer.protocol_name) == (0, "range")
    assert [one.metadata for one in answer.members] == [b"last"]


@pytest.mark.parametrize("changes", [{"protocols": []}, {"protocol_type": ""}])
@pytest.mark.parametrize("version", range(10))
def test_join_without_protocols_is_refused_and_creates_no_group(
    hosting: GroupNode, version: int, changes: dict[str, Any]
) -> None:
    assert join(hosting, version, **changes).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert hosting.state() is None


def test_before_version_1_the_session_timeout_is_the_rebalance_timeout(hosting: GroupNode) -> None:
    member = hosting.groups.shard_of("g")
    answer = join(hosting, 0)
    assert member.groups["g"].members[answer.member_id].rebalance_timeout_ms == 10_000


def test_from_version_1_the_rebalance_timeout_is_separate(hosting: GroupNode) -> None:
    answer = join(hosting, 1, rebalance_timeout_ms=77)
    assert hosting.groups.shard_of("g").groups["g"].members[answer.member_id].rebalance_timeout_ms == 77


def test_member_has_client_id_and_host(hosting: GroupNode) -> None:
    answer = join(hosting, 3)
    member = hosting.groups.shard_of("g").groups["g"].members[answer.member_id]
    assert (member.client_id, member.client_host) == ("c", "/127.0.0.1")


@pytest.mark.parametrize(("version", "skips"), [(8, False), (9, True)])
def test_replaced_static_leader_skips_assignment_where_the_version_can_express_it(
    hosting: GroupNode, version: int, skips: bool
) -> None:
    hosting.stable_member(instance="A")
    answer = join(hosting, version, group_instance_id="A")
    assert answer.error_code == 0
    assert answer.skip_assignment is skips
    assert (answer.leader == answer.member_id) is skips


def test_not_coordinator_response_has_the_member_id(group_node: GroupNode) -> None:
    answer = join(group_node, 6, "m")
    assert (answer.error_code, answer.member_id, answer.generation_id) == (ErrorCode.NOT_COORDINATOR, "m", -1)


def test_the_reason_of_a_join_is_logged_from_version_8(hosting: GroupNode, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "broker.coordinator.group"):
        join(hosting, 8, group_instance_id="A", reason="the subscription changed")
    assert "(the subscription changed)" in caplog.text
