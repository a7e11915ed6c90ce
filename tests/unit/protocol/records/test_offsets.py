from __future__ import annotations

import pytest

from protocol.errors import DecodeError
from protocol.records.offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

KEY = OffsetCommitKey(group="g", topic="t", partition=3)


def test_key_begins_with_its_version() -> None:
    assert encode_key(KEY) == bytes.fromhex("0001 0001 67 0001 74 00000003")
    assert encode_key(GroupMetadataKey(group="g")) == bytes.fromhex("0002 0001 67")
    assert decode_key(encode_key(KEY)) == KEY
    assert decode_key(encode_key(GroupMetadataKey(group="g"))) == GroupMetadataKey(group="g")


def test_a_key_of_the_oldest_kind_names_an_offset_too() -> None:
    assert decode_key(b"\0\0" + encode_key(KEY)[2:]) == KEY


def test_key_of_unknown_type_is_none() -> None:
    assert decode_key(bytes.fromhex("0003 0001 67")) is None


def test_a_value_begins_with_its_version() -> None:
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=7, topic_id=b"i" * 16)
    assert encode_value(value, 4)[:2] == b"\0\4"
    assert decode_value(OffsetCommitValue, encode_value(value, 4)) == value
    assert decode_value(OffsetCommitValue, encode_value(value, 3)).topic_id == bytes(16)


def test_a_group_keeps_its_members() -> None:
    member = GroupMetadataValue.MemberMetadata(
        member_id="m",
        group_instance_id="static",
        client_id="c",
        client_host="/127.0.0.1",
        session_timeout=10,
        subscription=b"topics",
        assignment=b"partitions",
    )
    value = GroupMetadataValue(protocol_type="consumer", generation=4, protocol="range", leader="m", members=[member])
    assert decode_value(GroupMetadataValue, encode_value(value, 3)) == value


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\1\0"])
def test_a_key_that_ends_early_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_key(data)


def test_a_value_of_an_unknown_version_is_refused() -> None:
    with pytest.raises(DecodeError, match="no version 9"):
        decode_value(OffsetCommitValue, b"\0\x09")
