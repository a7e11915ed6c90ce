from __future__ import annotations

import subprocess
import sys

import pytest

from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.schema import maker
from tests.typed import present
from tests.unit.protocol.conftest import Order


class Slice:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size_bytes = len(data)
        self.reads = 0

    def read(self, offset: int, size: int, /) -> bytes:
        self.reads += 1
        return self.data[offset : offset + size]


@pytest.fixture
def small(order: type[Order]) -> Order:
    return order(number=5, buyer=order.Buyer(name="b"), lines=[order.Line(item="i", counts=[1, 2])])


def test_a_message_has_slots_and_defaults(order: type[Order], small: Order) -> None:
    assert (small.note, small.urgent, small.marks) == (None, -1, [])
    assert not hasattr(small, "__dict__")
    with pytest.raises(TypeError, match="nmber"):
        order(nmber=1)  # type: ignore[call-arg]  # wrong on purpose


def test_a_default_list_is_a_new_one_each_time(order: type[Order], small: Order) -> None:
    present(small.marks).append(bytes(16))
    assert order(number=5, buyer=small.buyer, lines=[]).marks == []


def test_messages_are_equal_when_their_fields_are(order: type[Order], small: Order) -> None:
    again = order(number=5, buyer=order.Buyer(name="b"), lines=[order.Line(item="i", counts=[1, 2])])
    assert small == again
    again.lines[0].counts[0] = 7
    assert small != again
    assert small.buyer != order.Line(item="b")  # type: ignore[comparison-overlap]  # equal by content


def test_repr_can_be_read(small: Order) -> None:
    assert repr(small).startswith(
        "Order(number=5, note=None, urgent=-1, buyer=Buyer(name='b'), sender=None, lines=[Line("
    )


@pytest.mark.parametrize("version", [-1, 4])
def test_a_version_that_is_not_declared_is_refused(order: type[Order], small: Order, version: int) -> None:
    with pytest.raises(DecodeError, match="Order has no version"):
        order.decode(b"", version)
    with pytest.raises(KafkaError) as refused:
        small.encode(version)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_file_slices_are_returned_unread_in_their_position(small: Order) -> None:
    small.goods = b"abcdefgh"
    plain = small.encode(2)
    first, second = Slice(b"abc"), Slice(b"defgh")
    small.goods = [first, second]
    parts = small.encode_parts(2, prefix=b"head")
    assert [part for part in parts if isinstance(part, Slice)] == [first, second]
    assert first.reads == second.reads == 0
    assert b"".join(part.data if isinstance(part, Slice) else bytes(part) for part in parts) == b"head" + plain  # type: ignore[arg-type]  # only this comes here
    assert small.encode(2) == plain


def test_single_slice_is_allowed_and_no_slices_encode_as_empty(order: type[Order], small: Order) -> None:
    small.goods = Slice(b"abc")
    assert order.decode(small.encode(2), 2).goods == b"abc"
    small.goods = []
    assert order.decode(small.encode(2), 2).goods == b""
    assert len(small.encode_parts(2)) == 1


def test_records_are_views_of_the_buffer_and_all_else_is_copied_out(order: type[Order], small: Order) -> None:
    small.goods, small.blob = b"goods", b"blob"
    buffer = bytearray(small.encode(1))
    decoded = order.decode(buffer, 1)
    assert isinstance(decoded.goods, memoryview)
    buffer[:] = bytes(len(buffer))
    assert (decoded.goods, decoded.blob, decoded.buyer.name) == (bytes(5), b"blob", "b")  # type: ignore[comparison-overlap]  # equal by content


def test_declaring_and_importing_messages_is_cheap() -> None:
    heavy = "{'dataclasses', 'inspect', 'asyncio', 'uuid', 'json', 'argparse'}"
    program = f"import sys, protocol.messages.fetch; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_maker_builds_the_same_message_as_the_class(order: type[Order], small: Order) -> None:
    made = maker(order)(number=5, buyer=order.Buyer(name="b"), lines=small.lines)
    assert type(made) is order
    assert made == small
    assert made.marks is not small.marks
    with pytest.raises(TypeError, match="nmber"):
        maker(order)(nmber=1)  # type: ignore[call-arg]  # wrong on purpose
