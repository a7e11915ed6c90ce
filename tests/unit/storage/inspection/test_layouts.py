"""`tests/unit/docs/test_formats.py` shows that the layouts are those of docs/FORMATS.md."""

from protocol.record_batch import HEADER_BYTES
from storage.inspection.layouts import BATCH, OFFSET_ENTRY, layout, unpack


def test_fields_are_contiguous() -> None:
    named = layout(">hIq", "a", "b", "c")
    assert [(field.name, field.offset, field.size) for field in named.fields] == [("a", 0, 2), ("b", 2, 4), ("c", 6, 8)]
    assert named.size == 14
    assert BATCH.size == HEADER_BYTES


def test_values_are_returned_by_name() -> None:
    data = b"??" + OFFSET_ENTRY.size * b"\0"
    assert unpack(OFFSET_ENTRY, data, 2) == {"relative_offset": 0, "position": 0}
