"""Records of `__consumer_offsets`, compared with bytes from the serializers of Apache Kafka 4.3.1."""

from __future__ import annotations

from broker.coordinator.group.classic_group import EMPTY, STABLE, ClassicGroup, ClassicGroupMember
from broker.coordinator.group.offsets import Committed
from broker.coordinator.group.records import (
    group_record,
    group_tombstone,
    kind_of,
    new_group_record,
    offset_record,
    offset_tombstone,
    read_group,
    read_group_key,
    read_offset,
    read_offset_key,
)

TOPIC_ID = bytes(range(16))
COMMITTED = Committed(42, 3, "note", 1_700_000_000_000, topic_id=TOPIC_ID)


def stable_group() -> ClassicGroup:
    group = ClassicGroup("g", 0)
    group.add(
        ClassicGroupMember(
            "g",
            "m-1",
            instance_id="A",
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout_ms=60_000,
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols={"range": b"sub", "sticky": b"other"},
        )
    )
    group.generation = 7
    group.protocol = "range"
    group.state = STABLE
    group.state_timestamp_ms = 1_700_000_000_000
    return group


def test_a_commit_is_a_version_4_value_with_its_topic_id() -> None:
    key, value = offset_record("g", "t", 5, COMMITTED)
    assert key == b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x05"
    assert value == (
        b"\x00\x04" + (42).to_bytes(8, "big") + b"\x00\x00\x00\x03" + b"\x05note"
        + (1_700_000_000_000).to_bytes(8, "big") + b"\x01\x00\x10" + TOPIC_ID
    )  # fmt: skip


def test_a_commit_without_a_known_topic_id_has_no_tagged_field() -> None:
    _, value = offset_record("g", "t", 5, COMMITTED._replace(topic_id=bytes(16)))
    assert value is not None
    assert value.endswith((1_700_000_000_000).to_bytes(8, "big") + b"\x00")


def test_a_commit_with_an_expiry_is_a_version_1_value() -> None:
    _, value = offset_record("g", "t", 5, COMMITTED._replace(expire_timestamp_ms=9))
    assert value == (
        b"\x00\x01" + (42).to_bytes(8, "big") + b"\x00\x04note"
        + (1_700_000_000_000).to_bytes(8, "big") + (9).to_bytes(8, "big")
    )  # fmt: skip


def test_commit_record_round_trips() -> None:
    key, value = offset_record("g", "t", 5, COMMITTED)
    assert value is not None
    assert kind_of(key) == 1
    assert read_offset_key(key) == ("g", "t", 5)
    assert read_offset(value, 99) == COMMITTED._replace(record_offset=99)


def test_commit_record_of_an_older_version_is_decoded() -> None:
    stored = b"\x00\x00" + (42).to_bytes(8, "big") + b"\x00\x01m" + (77).to_bytes(8, "big")
    assert read_offset(stored, 1) == Committed(42, -1, "m", 77, record_offset=1)


def test_a_group_is_a_version_3_value_with_the_elected_protocols_metadata() -> None:
    key, value = group_record(stable_group(), {"m-1": b"mine"})
    assert key == b"\x00\x02\x00\x01g"
    assert value == (
        b"\x00\x03" b"\x00\x08consumer" b"\x00\x00\x00\x07" b"\x00\x05range" b"\x00\x03m-1"
        + (1_700_000_000_000).to_bytes(8, "big")
        + b"\x00\x00\x00\x01" b"\x00\x03m-1" b"\x00\x01A" b"\x00\x01c" b"\x00\x0a/127.0.0.1"
        + (60_000).to_bytes(4, "big") + (10_000).to_bytes(4, "big")
        + b"\x00\x00\x00\x03sub" b"\x00\x00\x00\x04mine"
    )  # fmt: skip


def test_group_record_decodes_to_a_stable_group_with_only_the_stored_protocol() -> None:
    key, value = group_record(stable_group(), {"m-1": b"mine"})
    assert value is not None
    group = read_group(read_group_key(key), value, now_ms=5)
    assert (group.state, group.generation, group.protocol, group.leader) == (STABLE, 7, "range", "m-1")
    assert group.state_timestamp_ms == 1_700_000_000_000
    [member] = group.members.values()
    assert (member.instance_id, member.assignment, member.protocols) == ("A", b"mine", {"range": b"sub"})
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (60_000, 10_000)
    assert group.static_members == {"A": "m-1"}


def test_record_of_a_new_group_decodes_to_an_empty_group_without_protocol_type() -> None:
    group = ClassicGroup("g", 8)
    _, value = new_group_record(group)
    assert value is not None
    read = read_group("g", value, now_ms=9)
    assert (read.state, read.generation, read.protocol_type, read.state_timestamp_ms) == (EMPTY, 0, None, 8)


def test_group_record_whose_leader_is_no_member_gets_another_leader() -> None:
    group = stable_group()
    group.leader = "gone"
    _, value = group_record(group, {})
    assert value is not None
    assert read_group("g", value, 0).leader == "m-1"


def test_older_group_record_uses_the_session_timeout_as_rebalance_timeout() -> None:
    stored = (
        b"\x00\x00" b"\x00\x08consumer" b"\x00\x00\x00\x07" b"\x00\x05range" b"\x00\x03m-1"
        b"\x00\x00\x00\x01" b"\x00\x03m-1" b"\x00\x01c" b"\x00\x01h" b"\x00\x00\x27\x10"
        b"\x00\x00\x00\x00" b"\x00\x00\x00\x00"
    )  # fmt: skip
    group = read_group("g", stored, now_ms=5)
    assert group.members["m-1"].rebalance_timeout_ms == 10_000
    assert group.state_timestamp_ms is None


def test_tombstones_have_a_key_and_no_value() -> None:
    assert offset_tombstone("g", "t", 5) == (offset_record("g", "t", 5, COMMITTED)[0], None)
    assert group_tombstone("g") == (new_group_record(ClassicGroup("g", 0))[0], None)
