from __future__ import annotations

import pytest

from protocol.fields import default_struct, fields_of, parse_versions
from protocol.schema import Int32, struct, wire
from tests.unit.protocol.conftest import Order


@pytest.mark.parametrize(
    ("text", "versions"), [("3+", range(3, 0x8000)), ("-12", range(13)), ("3-7", range(3, 8)), ("3", range(3, 4))]
)
def test_versions_are_written_as_kafka_writes_them(text: str, versions: range) -> None:
    assert parse_versions(text) == versions


def test_a_field_without_a_default_must_be_given_and_still_has_the_implied_one(order: type[Order]) -> None:
    number = fields_of(order)[0]
    assert (number.required, number.default) == (True, 0)
    with pytest.raises(TypeError, match="number"):
        order(buyer=order.Buyer(name="b"), lines=[])  # type: ignore[call-arg]  # wrong on purpose


def test_null_and_tag_versions_default_to_the_versions_of_the_field(order: type[Order]) -> None:
    fields = {field.name: field for field in fields_of(order)}
    assert fields["note"].nullable == fields["note"].versions == parse_versions("1+")
    assert fields["marks"].nullable == parse_versions("1+")
    assert fields["parent"].tagged == parse_versions("2+")
    assert [fields["courier"].is_plain_at(version) for version in (2, 3)] == [True, False]
    assert [fields["courier"].is_tagged_at(version) for version in (2, 3)] == [False, True]


def test_the_struct_of_defaults_is_shared_and_cannot_be_changed(order: type[Order]) -> None:
    one, other = (order(number=i, buyer=order.Buyer(name="b"), lines=[]) for i in range(2))
    assert one.courier is other.courier is default_struct(order.Courier)
    assert one.courier == order.Courier()
    assert repr(one.courier) == "Courier(id=-1, name='')"
    with pytest.raises(AttributeError, match="shared default"):
        one.courier.id = 3


def test_undeclared_type_is_named_in_the_error() -> None:
    @struct
    class Odd:
        what: Nothing = wire(default=None)  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TypeError, match=r"Odd has a field of unknown type Nothing"):
        fields_of(Odd)


def test_a_struct_may_have_no_fields() -> None:
    @struct
    class Empty:
        pass

    assert fields_of(Empty) == ()
    assert Empty() == Empty()


def test_int32_is_an_int() -> None:
    assert Int32 is int
