from __future__ import annotations

import linecache
import traceback

import pytest

from protocol.compiler import compile_decoder, compile_encoder
from protocol.messages.fetch import FetchResponse
from tests.unit.protocol.conftest import Order


def test_consecutive_fixed_size_fields_are_one_call() -> None:
    decoder, encoder = (make(FetchResponse, 18, True).text() for make in (compile_decoder, compile_encoder))
    assert "unpack_from_ihqqqB(buf, at)" in decoder
    assert "pack_ihqqqB(" in encoder


def test_a_traceback_shows_the_generated_line(order: type[Order]) -> None:
    value = order(number="five", buyer=order.Buyer(name="b"), lines=[])  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(Exception, match="required argument is not an integer") as failed:
        value.encode(0)
    shown = "".join(traceback.format_exception(failed.value))
    assert 'File "<Order v0 encode>"' in shown
    assert "message.number" in shown


def test_the_source_is_kept_for_debuggers(order: type[Order]) -> None:
    order(number=1, buyer=order.Buyer(name="b"), lines=[]).encode(2)
    assert linecache.getline("<Order v2 encode>", 1) == "def encode(message, out, cuts):\n"
