import traceback

import pytest

from protocol.source import Source


def test_statements_and_blocks_become_a_function() -> None:
    source = Source("doubling", "double", "numbers")
    source.line("found = []")
    with source.block("for number in numbers:"):
        source.line("found.append(2 * number)")
    source.line("return found")
    assert source.text() == (
        "def double(numbers):\n"
        "    found = []\n"
        "    for number in numbers:\n"
        "        found.append(2 * number)\n"
        "    return found\n"
    )
    assert source.function()([1, 2]) == [2, 4]


def test_a_traceback_shows_the_generated_line() -> None:
    source = Source("a division of ours", "divide", "a, b")
    source.line("return a / b")
    with pytest.raises(ZeroDivisionError) as error:
        source.function()(1, 0)
    last = traceback.extract_tb(error.tb)[-1]
    assert (last.filename, last.lineno, last.line) == ("<a division of ours>", 2, "return a / b")


def test_fresh_names_differ() -> None:
    source = Source("names", "f", "")
    assert len({source.fresh("x"), source.fresh("x"), source.fresh("y")}) == 3


def test_a_value_keeps_its_name_and_another_value_gets_another() -> None:
    source = Source("values", "f", "")
    one, other = object(), object()
    assert source.bind("VALUE", one) == source.bind("VALUE", one) == "VALUE"
    name = source.bind("VALUE", other)
    source.line(f"return VALUE, {name}")
    assert source.function()() == (one, other)


def test_a_struct_is_made_once_and_is_big_endian_without_padding() -> None:
    source = Source("structs", "f", "")
    name = source.packer("pack", "?hq")
    assert source.packer("pack", "?hq") == name
    assert name.isidentifier()
    source.line(f"return {name}(True, 1, 2)")
    assert source.function()() == b"\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02"


@pytest.mark.parametrize("value", [None, True, -1, 1.5, "a'b", b"", []])
def test_a_plain_default_is_written_as_a_literal(value: object) -> None:
    assert Source("defaults", "f", "").constant(value) == repr(value)


@pytest.mark.parametrize("value", [bytes(16), {"a": 1}])
def test_any_other_default_is_referred_to(value: object) -> None:
    source = Source("defaults", "f", "")
    source.line(f"return {source.constant(value)}")
    assert source.function()() is value
