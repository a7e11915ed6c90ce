"""Parser of docs/FORMATS.md: the fields of every format."""

import re
from pathlib import Path
from typing import NamedTuple

PAGE = (Path(__file__).parents[1] / "docs" / "FORMATS.md").read_text(encoding="utf-8")

_BYTES = re.compile(r"^\| Offset \| Size \| Field \| Meaning \|\n\|[-:|]+\n((?:\|.*\n)+)", re.MULTILINE)
_LINES = re.compile(r"^\| Line \| Field \| Meaning \|\n\|[-:|]+\n((?:\|.*\n)+)", re.MULTILINE)


class ByteField(NamedTuple):
    """A field of a binary format; without a size, the rest of the bytes."""

    name: str
    offset: int
    size: int | None


class LineField(NamedTuple):
    """A field of a text format."""

    name: str
    line: int


def byte_tables() -> list[list[ByteField]]:
    """Return the tables of binary formats, in the order of the page."""
    return [
        [
            ByteField(name, int(offset), None if size == "*" else int(size))
            for offset, size, name in re.findall(r"^\| (\d+) \| (\d+|\*) \| `(\w+)` \|", table, re.MULTILINE)
        ]
        for table in _BYTES.findall(PAGE)
    ]


def line_tables() -> list[list[LineField]]:
    """Return the tables of text formats, in the order of the page."""
    return [
        [LineField(name, int(line)) for line, name in re.findall(r"^\| (\d+) \| `([\w.]+)` \|", table, re.MULTILINE)]
        for table in _LINES.findall(PAGE)
    ]


BATCH, OFFSET_ENTRY, TIME_ENTRY, TXN_ENTRY, SNAPSHOT, PRODUCER = byte_tables()
OFFSETS, EPOCHS, PARTITION, META, CLEAN_STOP, QUORUM = line_tables()
