r"""kcat's formats: `-f 'Topic %t [%p] at offset %o: key %k: %s\n'`, and the escapes of its delimiters.

    %s %v  value        %S  its length, -1 for null        %R  its length as 32 bits, big-endian
    %k     key          %K  its length, -1 for null        %T  timestamp in milliseconds
    %t     topic        %p  partition                      %o  offset
    %h     headers as NAME=VALUE,...                       %%  a percent sign

    \n \r \t \\ \xNN \0NN (octal) \NNN (decimal) in between. %v is rpk's name for the value.

A backslash before any other letter is an error; kcat prints the letter. Before any other character it stands for that
character, as in kcat. Formatting works on bytes: keys and values are printed as they were written.
"""

import argparse
import re
import struct
from collections.abc import Callable
from typing import Any

Formatter = Callable[[Any], bytes]

_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{1,2}|[0-9]{1,4}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_NULL = b"NULL"


def unescape(text: str) -> bytes:
    r"""Return the bytes of a text with escapes such as \n, \t and \xNN; ArgumentTypeError for an unknown escape."""

    def character(found: re.Match[bytes]) -> bytes:
        code = found[1]
        if code[:1] == b"x" and len(code) > 1:
            return bytes([int(code[1:], 16)])
        if code.isdigit():
            octal = code.startswith(b"0") and not set(code) & set(b"89")
            return bytes([int(code, 8 if octal else 10) & 0xFF])
        if code.isalpha() and code not in _ESCAPED:
            raise argparse.ArgumentTypeError(
                rf"\{code.decode()} is not an escape; use \n \r \t \xNN \0NN \NNN, and \\ for a backslash"
            )
        return _ESCAPED.get(code, code)

    # Bytes of the command line that are not UTF-8 arrive as surrogates.
    return _ESCAPE.sub(character, text.encode("utf-8", "surrogateescape"))


def check_escapes(text: str) -> str:
    """Return `text` unchanged; ArgumentTypeError if it has an unknown escape."""
    unescape(text)
    return text


def compile_format(text: str, null: bytes = b"") -> Formatter:
    """Return a function from a record to its formatted bytes.

    `null` replaces keys and values that are null; kcat's `-Z` makes it NULL.
    """
    tokens = _tokens(null)
    parts: list[Formatter] = []
    for literal, verb in re.findall(r"([^%]*)(%.?)?", text, re.DOTALL):
        if literal:
            parts.append(_constant(unescape(literal)))
        if verb == "%%":
            parts.append(_constant(b"%"))
        elif verb:
            if verb[1:] not in tokens:
                raise argparse.ArgumentTypeError(f"{verb!r} is not a format verb; use %{' %'.join(tokens)} and %%")
            parts.append(tokens[verb[1:]])
    return lambda record: b"".join([part(record) for part in parts])


def _constant(value: bytes) -> Formatter:
    return lambda _: value


def _tokens(null: bytes) -> dict[str, Formatter]:
    def value(record: Any) -> bytes:
        return null if record.value is None else record.value

    return {
        "s": value,
        "v": value,
        "k": lambda record: null if record.key is None else record.key,
        "S": lambda record: b"%d" % _length(record.value),
        "K": lambda record: b"%d" % _length(record.key),
        "R": lambda record: struct.pack(">i", _length(record.value)),
        "T": lambda record: b"%d" % record.timestamp,
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "h": lambda record: b",".join(
            name.encode() + b"=" + (_NULL if value is None else value) for name, value in record.headers
        ),
    }


def _length(field: bytes | None) -> int:
    return -1 if field is None else len(field)
