"""The compiled codecs against a plain codec and against damage, for every message in every version."""

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import DecodeError
from protocol.fields import fields_of
from protocol.primitives import put_uvarint
from protocol.schema import Message
from tests.declared import all_versions, plain_encode, random_message
from tests.examples import examples

FLEXIBLE = [one for one in all_versions() if one[1] >= one[0].FLEXIBLE_FROM]
few = settings(max_examples=examples(5), deadline=None)


def named(value: type[Message] | int) -> str:
    return value.__name__ if isinstance(value, type) else str(value)


@pytest.mark.parametrize(("message", "version"), all_versions(), ids=named)
@few
@given(random=st.randoms(use_true_random=False))
def test_a_message_is_written_as_the_plain_codec_writes_it_and_read_back(
    message: type[Message], version: int, random: Random
) -> None:
    value = random_message(random, message, version)
    data = value.encode(version)
    assert data == plain_encode(value, version)
    assert message.decode(data, version) == value
    assert message.decode(memoryview(bytearray(b"head" + data)), version, 4) == value


@pytest.mark.parametrize(("message", "version"), all_versions(), ids=named)
def test_message_with_missing_or_extra_bytes_is_rejected(message: type[Message], version: int) -> None:
    data = random_message(Random(7), message, version).encode(version)
    step = max(1, len(data) // 40)
    for size in [*range(0, len(data), step), len(data) - 1]:
        if 0 <= size < len(data):
            with pytest.raises(DecodeError):
                message.decode(data[:size], version)
    if not message.TRAILING_BYTES:
        with pytest.raises(DecodeError):
            message.decode(data + b"\0", version)


@pytest.mark.parametrize(("message", "version"), all_versions(), ids=named)
@few
@given(random=st.randoms(use_true_random=False))
def test_damage_ends_in_a_message_or_a_decode_error(message: type[Message], version: int, random: Random) -> None:
    damaged = bytearray(random_message(random, message, version).encode(version))
    for _ in range(min(4, len(damaged))):
        damaged[random.randrange(len(damaged))] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
    with suppress(DecodeError):
        message.decode(damaged, version)


@pytest.mark.parametrize(("message", "version"), FLEXIBLE, ids=named)
def test_unknown_tagged_fields_are_skipped(message: type[Message], version: int) -> None:
    value = random_message(Random(3), message, version)
    for field in fields_of(message):
        if field.is_tagged_at(version):
            setattr(value, field.name, field.default)
    data = bytearray(value.encode(version))
    assert data.pop() == 0
    put_uvarint(data, 2)
    for tag, content in ((9000, b"what is this"), (9001, b"")):
        put_uvarint(data, tag)
        put_uvarint(data, len(content))
        data += content
    assert message.decode(data, version) == value
