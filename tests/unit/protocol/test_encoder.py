from __future__ import annotations

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.metadata import MetadataResponse
from protocol.schema import Int32, Message, Struct, message, struct
from tests.unit.protocol.conftest import Order


@pytest.fixture
def small(order: type[Order]) -> Order:
    return order(number=5, buyer=order.Buyer(name="bo"), lines=[order.Line(item="i", counts=[7])])


def test_old_versions_have_lengths_of_a_fixed_width(small: Order) -> None:
    assert small.encode(0).hex(" ") == (
        "00 00 00 05 "  # number
        "00 02 62 6f "  # buyer
        "ff "  # no sender
        "00 00 00 01 00 01 69 00 00 00 01 00 00 00 07 "  # a line
        "00 00 00 00 00 00 00 00 "  # marks, blob
        "ff ff ff ff "  # null goods
        "ff ff ff ff 00 00"  # courier, in its place
    )


def test_flexible_versions_have_compact_lengths_and_end_each_struct_with_tagged_fields(small: Order) -> None:
    assert small.encode(3).hex(" ") == (
        "00 00 00 05 "  # number
        "00 ff ff "  # null note, urgent
        "03 62 6f 00 "  # buyer
        "ff "  # no sender
        "02 02 69 02 00 00 00 07 00 "  # a line
        "01 00 "  # blob, null goods
        "00"
    )


def test_tagged_fields_are_written_in_the_order_of_their_tags_and_only_when_set(
    order: type[Order], small: Order
) -> None:
    small.courier = order.Courier(id=1)
    small.parent = 2
    assert small.encode(3).endswith(bytes.fromhex("02 00 08 0000000000000002 01 06 00000001 01 00"))
    small.courier = order.Courier()
    assert small.encode(3).endswith(bytes.fromhex("01 00 08 0000000000000002"))
    small.parent = -1
    assert small.encode(3).endswith(bytes.fromhex("01 00 00"))


def test_nullable_struct_begins_with_a_presence_byte(order: type[Order], small: Order) -> None:
    small.sender = order.Buyer(name="s")
    assert bytes.fromhex("0002 626f 01 0001 73") in small.encode(0)


def test_field_missing_in_the_version_is_omitted_if_ignorable_else_refused(small: Order) -> None:
    plain = small.encode(0)
    small.note = "ignorable"
    assert small.encode(0) == plain
    small.urgent = 1
    with pytest.raises(KafkaError, match=r"version 0 cannot carry Order\.urgent") as refused:
        small.encode(0)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert small.encode(1)


def test_a_length_of_127_and_more_takes_two_bytes(order: type[Order], small: Order) -> None:
    for size, length in ((126, "7f"), (127, "8001")):
        small.buyer = order.Buyer(name="n" * size)
        assert bytes.fromhex(length) + b"n" * size in small.encode(2)


def test_encoding_null_in_a_non_nullable_field_raises(small: Order) -> None:
    small.lines = None  # type: ignore[assignment]  # wrong on purpose
    with pytest.raises(TypeError):
        small.encode(0)


def test_a_value_that_does_not_fit_into_its_field_is_refused(order: type[Order], small: Order) -> None:
    small.buyer = order.Buyer(name="n" * 32768)
    with pytest.raises(KafkaError, match="Order v0 cannot carry a value") as refused:
        small.encode(0)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_cached_item_is_encoded_once_for_each_version() -> None:
    topic = MetadataResponse.Topic(name="letters", topic_id=bytes(range(16)), partitions=[])
    response = MetadataResponse(brokers=[], topics=[topic, MetadataResponse.Topic(name="numbers", partitions=[])])
    first = {version: response.encode(version) for version in (1, 9, 12)}
    assert set(topic.encoded) == {1, 9, 12}
    assert topic.encoded[12] in first[12]
    topic.encoded[12] = topic.encoded[12].replace(b"letters", b"LETTERS")
    assert response.encode(12) == first[12].replace(b"letters", b"LETTERS")
    assert {version: response.encode(version) for version in (1, 9)} == {version: first[version] for version in (1, 9)}


def test_field_name_may_equal_the_cache_attribute_of_other_structs() -> None:
    @message(key=999, versions=(0, 0), flexible=None)
    class Named(Message):
        items: list[Item]

        @struct
        class Item(Struct):
            encoded: Int32

    assert Named(items=[Named.Item(encoded=5)]).encode(0).hex() == "0000000100000005"
