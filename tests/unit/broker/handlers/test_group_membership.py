"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.unit.broker.group_node import GroupNode

Member = LeaveGroupRequest.Member
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
    return node.answer(ApiKey.JOIN_GROUP, version, **(fields | changes))


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


@pytest.fixture
def member(group_node: GroupNode) -> str:
    result: str = group_node.wait(group_node.host().join()).member_id
    return result


def sync(node: GroupNode, version: int, member_id: str, **changes: Any) -> Any:
    assignment = SyncGroupRequest.Assignment(member_id=member_id, assignment=b"all")
    fields: dict[str, Any] = {
        "group_id": "g",
        "generation_id": 1,
        "member_id": member_id,
        "assignments": [assignment],
    }
    if version >= 5:
        fields |= {"protocol_type": "consumer", "protocol_name": "range"}
    return node.answer(ApiKey.SYNC_GROUP, version, **(fields | changes))


@pytest.mark.parametrize("version", range(6))
def test_assignment_is_returned(group_node: GroupNode, member: str, version: int) -> None:
    answer = sync(group_node, version, member)
    assert (answer.error_code, answer.assignment) == (0, b"all")
    assert answer.protocol_name == ("range" if version >= 5 else None)


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_protocol_is_required_from_version_5(group_node: GroupNode, member: str, missing: str) -> None:
    answer = sync(group_node, 5, member, **{missing: None})
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_protocol_must_match_the_group(group_node: GroupNode, member: str) -> None:
    answer = sync(group_node, 5, member, protocol_name="sticky")
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(6))
def test_another_generation_is_refused(group_node: GroupNode, member: str, version: int) -> None:
    answer = sync(group_node, version, member, generation_id=7)
    assert (answer.error_code, answer.assignment) == (ErrorCode.ILLEGAL_GENERATION, b"")


def test_group_with_another_coordinator_is_refused(group_node: GroupNode) -> None:
    assert sync(group_node, 4, "m").error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", range(5))
def test_heartbeat_of_the_current_generation_succeeds(group_node: GroupNode, version: int) -> None:
    member = group_node.host().stable_member()
    answer = group_node.answer(ApiKey.HEARTBEAT, version, group_id="g", generation_id=1, member_id=member)
    assert answer.error_code == 0


@pytest.mark.parametrize("version", range(5))
def test_heartbeat_of_another_generation_is_refused(group_node: GroupNode, version: int) -> None:
    member = group_node.host().stable_member()
    answer = group_node.answer(ApiKey.HEARTBEAT, version, group_id="g", generation_id=2, member_id=member)
    assert answer.error_code == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", [3, 4])
def test_other_member_with_the_same_instance_id_is_fenced(group_node: GroupNode, version: int) -> None:
    group_node.host().stable_member(instance="A")
    answer = group_node.answer(
        ApiKey.HEARTBEAT, version, group_id="g", generation_id=1, member_id="other", group_instance_id="A"
    )
    assert answer.error_code == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("version", range(3))
def test_one_member_leaves(group_node: GroupNode, version: int) -> None:
    member = group_node.host().stable_member()
    assert group_node.answer(ApiKey.LEAVE_GROUP, version, group_id="g", member_id=member).error_code == 0
    assert group_node.state() == "Empty"


@pytest.mark.parametrize("version", range(3))
def test_error_of_a_single_member_is_the_response_error(group_node: GroupNode, version: int) -> None:
    group_node.host().stable_member()
    answer = group_node.answer(ApiKey.LEAVE_GROUP, version, group_id="g", member_id="stranger")
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [3, 4, 5])
def test_each_leaving_member_has_its_own_result(group_node: GroupNode, version: int) -> None:
    group_node.host().stable_member(instance="A")
    leaving = [Member(member_id="", group_instance_id="A"), Member(member_id="stranger")]
    answer = group_node.answer(ApiKey.LEAVE_GROUP, version, group_id="g", members=leaving)
    assert answer.error_code == 0
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in answer.members] == [
        ("", "A", 0),
        ("stranger", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert group_node.state() == "Empty"


def test_leave_of_unknown_group_is_refused(group_node: GroupNode) -> None:
    group_node.host()
    answer = group_node.answer(ApiKey.LEAVE_GROUP, 3, group_id="g", members=[Member(member_id="m")])
    assert (answer.error_code, answer.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("version", [2, 3])
def test_a_group_without_a_name_is_refused(group_node: GroupNode, version: int) -> None:
    assert group_node.host().answer(ApiKey.LEAVE_GROUP, version, group_id="").error_code == ErrorCode.INVALID_GROUP_ID


def test_the_reason_of_a_leave_is_logged_from_version_5(
    group_node: GroupNode, caplog: pytest.LogCaptureFixture
) -> None:
    group_node.host().stable_member(instance="A")
    leaving = Member(member_id="", group_instance_id="A", reason="the consumer is closed")
    with caplog.at_level(logging.DEBUG, "broker.coordinator.group"):
        group_node.answer(ApiKey.LEAVE_GROUP, 5, group_id="g", members=[leaving])
    assert "(the consumer is closed)" in caplog.text
