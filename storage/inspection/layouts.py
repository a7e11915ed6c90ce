"""The fields of the binary files as names, offsets and sizes, from the struct formats that the code packs by.

`docs/FORMATS.md` has the same tables; a test compares them.
"""

import re
from struct import calcsize, unpack_from
from typing import NamedTuple

from protocol.record_batch import HEADER_FORMAT as BATCH_FORMAT
from protocol.record_batch import BatchHeader
from storage.log.index import OffsetIndex, TimeIndex
from storage.log.producer_snapshot import ENTRY_FORMAT, HEADER_FORMAT
from storage.log.transaction_index import ENTRY_FORMAT as TXN_ENTRY_FORMAT


class LayoutField(NamedTuple):
    """A field of a format; `offset` and `size` in bytes."""

    name: str
    offset: int
    size: int


class Layout(NamedTuple):
    """Fields without gaps between them."""

    format: str
    fields: tuple[LayoutField, ...]

    @property
    def size(self) -> int:
        """The size of all fields in bytes."""
        return calcsize(self.format)

    def field(self, name: str) -> LayoutField:
        """Return the field of that name."""
        return next(field for field in self.fields if field.name == name)


def layout(form: str, *names: str) -> Layout:
    """Return the layout of a struct format; each format character is one field."""
    offset, fields = 0, []
    for character, name in zip(re.findall(r"[a-zA-Z]", form), names, strict=True):
        size = calcsize(f">{character}")
        fields.append(LayoutField(name, offset, size))
        offset += size
    return Layout(form, tuple(fields))


BATCH = layout(BATCH_FORMAT, *BatchHeader._fields)
OFFSET_ENTRY = layout(OffsetIndex.ENTRY.format, "relative_offset", "position")
TIME_ENTRY = layout(TimeIndex.ENTRY.format, "timestamp", "relative_offset")
SNAPSHOT = layout(HEADER_FORMAT, "version", "crc", "producer_count")
PRODUCER = layout(
    ENTRY_FORMAT,
    "producer_id",
    "producer_epoch",
    "last_sequence",
    "last_offset",
    "offset_delta",
    "timestamp",
    "coordinator_epoch",
    "txn_first_offset",
)
TXN_ENTRY = layout(TXN_ENTRY_FORMAT, "version", "producer_id", "first_offset", "last_offset", "last_stable_offset")


def unpack(layout: Layout, data: bytes, at: int = 0) -> dict[str, int]:
    """Return the values of a layout's fields by name."""
    values = unpack_from(layout.format, data, at)
    return dict(zip((field.name for field in layout.fields), values, strict=True))
