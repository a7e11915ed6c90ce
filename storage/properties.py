r"""Java's properties format, used by `meta.properties` and `server.properties`: parse and format.

A line has the form `key=value`, `key: value` or `key value`; one that begins with `#` or `!` is a comment. A
backslash at the end continues the line, whose next part loses its leading blanks. `\t \n \r \f` and `\uXXXX`
are escapes; a backslash before any other character stands for that character. The last value of a repeated key is used,
as in Java. Source: the documentation of `java.util.Properties`.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

_BLANKS = " \t\f"
_HEX_DIGITS = "0123456789abcdefABCDEF"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


class PropertiesError(ValueError):
    """A line is invalid; `problem` has the reason."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


class Property(NamedTuple):
    """The value of a key, and the number of the line at which it begins."""

    value: str
    line: int


def parse_properties(text: str) -> dict[str, Property]:
    """Return the property of each key."""
    properties: dict[str, Property] = {}
    for number, line in _logical_lines(text):
        end = _end_of_key(line)
        rest = line[end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        properties[_unescape(line[:end], number)] = Property(_unescape(rest, number), number)
    return properties


def format_properties(values: Mapping[str, str]) -> str:
    """Return a file's text, one `key=value` per line."""
    return "".join(f"{_escape(key, key=True)}={_escape(value)}\n" for key, value in values.items())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (number, content) of each line, without comments and blank lines, and with continued lines joined."""
    joined = ""
    begun = 0
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = line.lstrip(_BLANKS)
        if not begun:
            if not line or line[0] in "#!":
                continue
            begun = number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined += line[:-1]
            continue
        yield begun, joined + line
        joined, begun = "", 0
    if joined:
        yield begun, joined


def _end_of_key(line: str) -> int:
    """Return the position of the first separator without a backslash before it."""
    at = 0
    while at < len(line) and line[at] not in "=: \t\f":
        at += 2 if line[at] == "\\" else 1
    return min(at, len(line))


def _unescape(text: str, number: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            out.append(text[at])
            at += 1
            continue
        escaped = text[at + 1 : at + 2]
        at += 2
        if escaped == "u":
            digits = text[at : at + 4]
            if len(digits) < 4 or not all(digit in _HEX_DIGITS for digit in digits):
                raise PropertiesError(number, f"\\u{digits} is not a character")
            out.append(chr(int(digits, 16)))
            at += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    # Java writes a character above U+FFFF as two escapes, its UTF-16 surrogates.
    return "".join(out).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _escape(text: str, *, key: bool = False) -> str:
    out: list[str] = []
    for at, character in enumerate(text):
        if character in _ESCAPED:
            out.append(_ESCAPED[character])
        elif character in "\\=:#!" or (character == " " and (key or at == 0)):
            out.append("\\" + character)
        elif " " <= character <= "~":
            out.append(character)
        else:
            out += (f"\\u{unit:04X}" for unit in _utf16(character))
    return "".join(out)


def _utf16(character: str) -> list[int]:
    encoded = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(encoded[at : at + 2], "big") for at in range(0, len(encoded), 2)]
