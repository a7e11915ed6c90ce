from __future__ import annotations

from typing import Any, Never

import pytest

from broker.coordinator.group.classic_group import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    ClassicGroup,
    ClassicGroupMember,
    read_subscription,
)
from protocol.errors import ErrorCode, InvariantError

STATES = [EMPTY, PREPARING, COMPLETING, STABLE, DEAD]
LEGAL = {
    (EMPTY, PREPARING),
    (PREPARING, EMPTY),
    (PREPARING, COMPLETING),
    (COMPLETING, STABLE),
    (COMPLETING, PREPARING),
    (STABLE, PREPARING),
} | {(state, DEAD) for state in STATES}


def member(member_id: str, protocols: dict[str, bytes] | None = None, **changes: bytes | str) -> ClassicGroupMember:
    values: dict[str, Any] = {
        "instance_id": None,
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": 60_000,
        "session_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": protocols or {"range": b""},
    }
    return ClassicGroupMember("g", member_id, **(values | changes))


def group_of(*members: ClassicGroupMember) -> ClassicGroup:
    group = ClassicGroup("g", 0)
    for one in members:
        group.add(one)
    group.transition_to(PREPARING, 0)
    return group


def subscription(*topics: str, version: int = 0) -> bytes:
    """Encode a ConsumerProtocolSubscription: topics and user data, then the fields of later versions."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    later = [b"", b"\x00\x00\x00\x00", b"\x00\x00\x00\x05", b"\xff\xff"]
    body = len(topics).to_bytes(4, "big") + names + b"\x00\x00\x00\x04mine" + b"".join(later[: version + 1])
    return version.to_bytes(2, "big") + body


class TestStates:
    @pytest.mark.parametrize("before", STATES)
    @pytest.mark.parametrize("after", STATES)
    def test_only_listed_transitions_are_allowed(self, before: str, after: str) -> None:
        group = ClassicGroup("g", 0)
        group.state = before
        if (before, after) in LEGAL:
            group.transition_to(after, 1)
            assert (group.previous_state, group.state, group.state_timestamp_ms) == (before, after, 1)
        else:
            with pytest.raises(InvariantError):
                group.transition_to(after, 1)

    def test_generation_without_members_is_empty_and_has_no_protocol(self) -> None:
        group = group_of(member("a"))
        group.begin_generation(1)
        group.transition_to(PREPARING, 2)
        group.remove("a")
        group.begin_generation(3)
        assert (group.state, group.generation, group.protocol, group.leader) == (EMPTY, 2, None, None)


class TestJoins:
    def test_member_with_a_pending_join_is_counted_until_answered_or_removed(self) -> None:
        group = group_of(member("a"), member("b"), member("c", instance_id="i"))
        assert (group.joined, group.all_joined) == (0, False)
        for one in group.members.values():
            one.awaiting_join = object()
        assert (group.joined, group.all_joined) == (3, True)
        group.members["a"].awaiting_join = None
        assert (group.joined, group.all_joined) == (2, False)
        group.remove("a")
        assert (group.joined, group.all_joined) == (2, True)
        old = group.members["c"]
        new = group.replace_static(old, "d")
        assert (group.joined, group.all_joined) == (1, False)
        new.awaiting_join = object()
        old.awaiting_join = None  # no longer a member
        assert (group.joined, group.all_joined) == (2, True)
        group.restore_static(new, old)
        assert (group.joined, group.all_joined) == (1, False)
        group.add_pending("e")
        group.remove("c")
        assert (group.joined, group.all_joined) == (1, False)

    def test_joined_count_does_not_scan_the_members(self) -> None:
        class UnscannedDict(dict[str, ClassicGroupMember]):
            def values(self) -> Never:
                raise AssertionError("every join would look at all members")

        group = group_of(member("a"))
        group.members = UnscannedDict(group.members)
        group.members["a"].awaiting_join = object()
        assert (group.joined, group.all_joined) == (1, True)


class TestLeader:
    def test_the_first_member_leads(self) -> None:
        assert group_of(member("a"), member("b")).leader == "a"

    def test_next_member_leads_after_the_leader_leaves(self) -> None:
        group = group_of(member("a"), member("b"))
        group.remove("a")
        assert group.leader == "b"

    def test_a_leader_that_did_not_join_is_replaced_by_one_that_did(self) -> None:
        group = group_of(member("a"), member("b"), member("c"))
        group.members["c"].awaiting_join = object()
        assert group.elect_joined_leader()
        assert group.leader == "c"

    def test_group_without_joined_members_elects_no_leader(self) -> None:
        assert not group_of(member("a")).elect_joined_leader()


class TestProtocols:
    def test_protocol_with_most_votes_is_elected(self) -> None:
        group = group_of(
            member("a", {"range": b"", "sticky": b""}),
            member("b", {"sticky": b"", "range": b""}),
            member("c", {"sticky": b"", "range": b""}),
        )
        assert group.elect_protocol() == "sticky"

    def test_protocol_that_not_all_support_gets_no_vote(self) -> None:
        group = group_of(
            member("a", {"mine": b"", "range": b""}), member("b", {"range": b"", "mine2": b""}), member("c")
        )
        assert group.elect_protocol() == "range"

    def test_without_a_common_protocol_there_is_no_election(self) -> None:
        with pytest.raises(InvariantError):
            group_of(member("a", {"x": b""}), member("b", {"y": b""})).elect_protocol()

    def test_member_without_a_common_protocol_is_not_accepted(self) -> None:
        group = group_of(member("a", {"range": b"", "sticky": b""}), member("b", {"sticky": b""}))
        assert group.accepts_protocols("consumer", {"sticky": b""})
        assert not group.accepts_protocols("consumer", {"range": b""})
        assert not group.accepts_protocols("connect", {"sticky": b""})

    def test_protocols_of_removed_and_updated_members_do_not_count(self) -> None:
        group = group_of(member("a", {"range": b""}), member("b", {"sticky": b"", "range": b""}))
        group.remove("a")
        assert group.accepts_protocols("consumer", {"sticky": b""})
        group.update(group.members["b"], {"sticky": b""}, 1, 2)
        assert not group.accepts_protocols("consumer", {"range": b""})

    @pytest.mark.parametrize(
        ("protocol_type", "protocols", "accepted"),
        [("anything", {"x": b""}, True), ("", {"x": b""}, False), ("consumer", {}, False)],
    )
    def test_empty_group_accepts_any_nonempty_protocols(
        self, protocol_type: str, protocols: dict[str, bytes], accepted: bool
    ) -> None:
        assert ClassicGroup("g", 0).accepts_protocols(protocol_type, protocols) is accepted

    def test_protocol_order_is_part_of_the_supported_protocols(self) -> None:
        one = member("a", {"range": b"", "sticky": b""})
        assert one.supports_exactly({"range": b"", "sticky": b""})
        assert not one.supports_exactly({"sticky": b"", "range": b""})
        assert not one.supports_exactly({"range": b"new", "sticky": b""})


class TestMembers:
    def test_only_the_newest_member_id_of_an_instance_is_a_member(self) -> None:
        old = member("A-1", instance_id="A")
        group = group_of(old)
        group.replace_static(old, "A-2")
        assert group.check_member("A-1", "A") == ErrorCode.FENCED_INSTANCE_ID
        assert group.check_member("A-1", None) == ErrorCode.UNKNOWN_MEMBER_ID
        assert group.check_member("A-2", "A") == ErrorCode.NONE
        assert group.check_member("A-2", None) == ErrorCode.NONE
        assert group.check_member("A-2", "B") == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_replacement_takes_over_assignment_and_leadership(self) -> None:
        old = member("A-1", instance_id="A", assignment=b"mine")
        group = group_of(old, member("b"))
        new = group.replace_static(old, "A-2")
        assert (new.assignment, group.leader, list(group.members)) == (b"mine", "A-2", ["b", "A-2"])

    def test_static_replacement_can_be_undone(self) -> None:
        old = member("A-1", {"range": b"", "sticky": b""}, instance_id="A", assignment=b"mine")
        group = group_of(old, member("b"))
        new = group.replace_static(old, "A-2")
        group.update(new, {"range": b""}, 1, 1)
        group.restore_static(new, old)
        assert group.check_member("A-1", "A") == ErrorCode.NONE
        assert group.check_member("A-2", None) == ErrorCode.UNKNOWN_MEMBER_ID
        assert group.leader == "A-1"
        assert group.supported == {"range": 2, "sticky": 1}

    def test_member_with_a_pending_join_keeps_its_session_unless_it_is_new(self) -> None:
        one = member("a")
        assert not one.keeps_session
        one.awaiting_join = object()
        assert one.keeps_session
        one.is_new = True  # type: ignore[unreachable]  # a call has changed it since
        assert not one.keeps_session

    def test_pending_member_delays_the_rebalance(self) -> None:
        group = group_of(member("a"))
        group.members["a"].awaiting_join = object()
        assert group.all_joined
        group.add_pending("b")
        assert not group.all_joined
        group.remove("b")  # type: ignore[unreachable]  # a call has changed it since
        assert group.all_joined


class TestSubscriptions:
    @pytest.mark.parametrize("version", [0, 1, 2, 3])
    def test_topics_are_read_from_every_version(self, version: int) -> None:
        assert read_subscription(subscription("flights", "planes", version=version)) == ["flights", "planes"]

    @pytest.mark.parametrize(
        "metadata",
        [
            b"",
            b"\x00\x00\x00",
            b"\x00\x00\x00\x00\x00\x01",
            b"\x00\x00\x00\x00\x00\x01\x00\x05abc",
            b"\x00\x00\x00\x00\x00\x01\xff\xff",
            b"\x00\x00\x00\x00\x00\x01\x00\x01\xff",
            b"\x00\x00\x7f\xff\xff\xff",
        ],
    )
    def test_malformed_subscription_is_not_decoded(self, metadata: bytes) -> None:
        assert read_subscription(metadata) is None

    def test_consumer_group_subscribes_to_the_topics_of_all_members(self) -> None:
        group = group_of(member("a", {"range": subscription("x")}), member("b", {"range": subscription("y")}))
        group.begin_generation(0)
        assert group.subscribed_topics == frozenset({"x", "y"})
        assert group.subscribes_to("y")
        assert not group.subscribes_to("z")

    def test_undecodable_subscription_counts_as_subscribed_to_every_topic(self) -> None:
        group = group_of(member("a", {"range": subscription("x")}), member("b", {"range": b"?"}))
        group.begin_generation(0)
        assert group.subscribes_to("z")

    def test_groups_of_other_protocol_types_subscribe_to_nothing(self) -> None:
        group = group_of(member("a", protocol_type="connect"))
        group.begin_generation(0)
        assert not group.subscribes_to("x")
