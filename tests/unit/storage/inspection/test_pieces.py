from pathlib import Path
from random import Random

import pytest

from protocol.record_batch import build_batch, read_header, set_header
from storage.disk import OsDisk
from storage.inspection.pieces import Piece, pieces, wrong_records
from tests.logs import batch

BATCHES = [bytes(batch(2, base_offset=number * 2)) for number in range(4)]
SIZE = len(BATCHES[0])


def found(folder: Path, data: bytes) -> list[Piece]:
    file = folder / "file.log"
    file.write_bytes(data)
    return list(pieces(OsDisk().open_file(str(file)), len(data)))


def changed(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def test_batches_follow_each_other(tmp_path: Path) -> None:
    for piece, number in zip(found(tmp_path, b"".join(BATCHES)), range(4), strict=True):
        assert (piece.position, piece.size_bytes) == (number * SIZE, SIZE)
        assert piece.header == read_header(BATCHES[number])


def test_empty_file_has_no_pieces(tmp_path: Path) -> None:
    assert found(tmp_path, b"") == []


@pytest.mark.parametrize(
    ("at", "new", "field"),
    [(8, b"\x7f", "batch_length"), (8, b"\xff", "batch_length"), (16, b"\3", "magic"), (17, b"\0\0\0\0", "crc"),
     (70, b"?", "crc"), (23, b"\x80", "crc")],
)  # fmt: skip
def test_damage_covers_one_batch_and_later_batches_are_found(tmp_path: Path, at: int, new: bytes, field: str) -> None:
    first, second, *rest = found(tmp_path, changed(b"".join(BATCHES), SIZE + at, new))
    assert first.header is not None
    assert (second.position, second.size_bytes, second.header) == (SIZE, SIZE, None)
    assert second.damage is not None
    assert second.damage.field == field
    assert [piece.header for piece in rest] == [read_header(one) for one in BATCHES[2:]]


@pytest.mark.parametrize("at", [11, 16])
def test_original_value_of_a_field_outside_the_crc_is_known(tmp_path: Path, at: int) -> None:
    piece = found(tmp_path, changed(b"".join(BATCHES), SIZE + at, b"\1"))[1]
    assert piece.original == read_header(BATCHES[1])


def test_bytes_between_batches_are_one_piece(tmp_path: Path) -> None:
    noise = Random(1).randbytes(3 << 20)
    pieces_found = found(tmp_path, BATCHES[0] + noise + BATCHES[1])
    assert [(one.size_bytes, one.header is None) for one in pieces_found] == [
        (SIZE, False), (len(noise), True), (SIZE, False),
    ]  # fmt: skip


def test_torn_end_is_one_piece(tmp_path: Path) -> None:
    for cut in (1, SIZE - 10):
        *_, last = found(tmp_path, b"".join(BATCHES)[:-cut])
        assert (last.header, last.size_bytes) == (None, SIZE - cut)


def test_zeros_are_no_batches(tmp_path: Path) -> None:
    assert [piece.header for piece in found(tmp_path, bytes(10_000))] == [None]


def test_records_are_read_whole() -> None:
    assert wrong_records(BATCHES[0]) is None


def test_records_that_fail_to_decode_are_reported() -> None:
    data = build_batch([(b"k", b"v")] * 2)
    set_header(data, read_header(data)._replace(record_count=3))
    assert wrong_records(bytes(data)) is not None
    set_header(data, read_header(data)._replace(record_count=2, last_offset_delta=0))
    assert "record offset 1" in (wrong_records(bytes(data)) or "")
