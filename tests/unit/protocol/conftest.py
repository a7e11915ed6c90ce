"""A message with every kind of field declaration."""

from __future__ import annotations

import pytest

from protocol.schema import (
    Bytes,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    String,
    Uuid,
    message,
    struct,
    wire,
)


@message(key=999, versions=(0, 3), flexible=2)
class Order(Message):
    """A message with each kind of field once."""

    number: Int32
    note: String | None = wire("1+", default=None, ignorable=True)
    urgent: Int16 = wire("1+", default=-1)
    buyer: Buyer
    sender: Buyer | None = wire(default=None)
    lines: list[Line]
    marks: list[Uuid] | None = wire("0-2", default=[], nullable="1+")
    blob: Bytes = wire(default=b"")
    goods: Records | None = wire(default=None)
    parent: Int64 = wire("2+", default=-1, tag=0)
    courier: Courier = wire("0+", default={}, tag=1, tagged="3+")

    @struct
    class Buyer:
        name: String

    @struct
    class Line:
        item: String
        counts: list[Int32] = wire(default=[])

    @struct
    class Courier:
        id: Int32 = wire(default=-1)
        name: String = wire(default="")


@pytest.fixture
def order() -> type[Order]:
    return Order
