import pytest

from protocol.errors import DecodeError
from protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_versioned,
)

# Version 0: topics "a" and "bc" without user data; partitions 0 and 2 of topic "a".
SUBSCRIPTION = bytes.fromhex("0000 00000002 0001 61 0002 6263 ffffffff")
ASSIGNMENT = bytes.fromhex("0000 00000001 0001 61 00000002 00000000 00000002 ffffffff")


def test_a_subscription_is_read_in_the_version_at_its_start() -> None:
    version, found = decode_versioned(ConsumerProtocolSubscription, SUBSCRIPTION)
    assert (version, found.topics, found.user_data) == (0, ["a", "bc"], None)


def test_an_assignment_names_partitions_by_topic() -> None:
    _, found = decode_versioned(ConsumerProtocolAssignment, ASSIGNMENT)
    assert [(one.topic, one.partitions) for one in found.assigned_partitions] == [("a", [0, 2])]


def test_later_subscription_versions_have_owned_partitions_generation_and_rack() -> None:
    owned = ConsumerProtocolSubscription.TopicPartition(topic="a", partitions=[1])
    shown = ConsumerProtocolSubscription(topics=["a"], owned_partitions=[owned], generation_id=7, rack_id="r")
    version, found = decode_versioned(ConsumerProtocolSubscription, b"\0\3" + shown.encode(3))
    assert (version, found) == (3, shown)


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\4" + SUBSCRIPTION[2:], b"\xff\xff", SUBSCRIPTION[:-1], SUBSCRIPTION + b"x"]
)
def test_damage_and_unknown_versions_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_versioned(ConsumerProtocolSubscription, data)
