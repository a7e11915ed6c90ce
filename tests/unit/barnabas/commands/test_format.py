"""kcat's formats. `test_like_kcat.py` compares them with kcat's own output."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import pytest

from barnabas.commands._format import compile_format, unescape

RECORD = SimpleNamespace(
    topic="t",
    partition=1,
    offset=2,
    timestamp=3,
    key=b"k",
    value=b"v\xff",
    headers=[("a", b"1"), ("b", None), ("a", b"")],
)
NULLS = SimpleNamespace(topic="t", partition=1, offset=2, timestamp=3, key=None, value=None, headers=[])


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (r"%t %p %o %T %k %v\n", b"t 1 2 3 k v\xff\n"),
        ("%s%S%K", b"v\xff21"),
        ("%R", b"\0\0\0\2"),
        ("%h", b"a=1,b=NULL,a="),
        ("100%%", b"100%"),
        (r"\x41\t\r\\n", b"A\t\r\\n"),
        ("ü", "ü".encode()),
        ("", b""),
    ],
)
def test_a_format_is_made_of_a_record(text: str, made: bytes) -> None:
    assert compile_format(text)(RECORD) == made


def test_null_is_shown_as_the_option_value() -> None:
    assert compile_format("%k|%s|%K|%S|%R")(NULLS) == b"||-1|-1|\xff\xff\xff\xff"
    assert compile_format("%k|%v", b"NULL")(NULLS) == b"NULL|NULL"


@pytest.mark.parametrize("text", ["%q", "%", "a%"])
def test_unknown_format_verb_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a format verb"):
        compile_format(text)


@pytest.mark.parametrize(("text", "named"), [(r"%k\q%v\n", r"\q"), (r"\xg", r"\x"), (r"\N", r"\N")])
def test_unknown_escape_is_refused_with_the_valid_ones(text: str, named: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        compile_format(text)
    assert str(refused.value) == rf"{named} is not an escape; use \n \r \t \xNN \0NN \NNN, and \\ for a backslash"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (r"\n", b"\n"),
        (r"\x0", b"\0"),
        (r"\xff", b"\xff"),
        (r"\0101\065\101", b"A5e"),
        (r"\\", b"\\"),
        (r"\"a\,\ü", '"a,ü'.encode()),
        ("a\\", b"a\\"),
        ("\udcff", b"\xff"),
    ],
)
def test_delimiters_may_be_any_bytes(text: str, read: bytes) -> None:
    assert unescape(text) == read
