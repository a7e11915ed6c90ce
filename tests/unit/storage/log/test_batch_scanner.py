from pathlib import Path

import pytest

from storage.disk import File, OsDisk
from storage.log.batch_scanner import valid_batches
from tests.logs import batch

SIZE = len(batch())


def written(folder: Path, content: bytes) -> File:
    path = folder / "x.log"
    path.write_bytes(content)
    return OsDisk().open_file(str(path))


def offsets(file: File, end: int) -> list[int]:
    return [header.base_offset for header in valid_batches(file, end)]


@pytest.fixture
def batches() -> bytes:
    """Return four batches of one record each."""
    return b"".join(offset.to_bytes(8, "big") + bytes(batch())[8:] for offset in range(4))


@pytest.mark.parametrize("tail", [b"", bytes(100), b"\xff" * 100], ids=["nothing", "zeros", "anything"])
def test_trailing_bytes_are_no_batch(tmp_path: Path, batches: bytes, tail: bytes) -> None:
    content = batches + tail
    assert offsets(written(tmp_path, content), len(content)) == [0, 1, 2, 3]


@pytest.mark.parametrize("at", [16, 17, 30, SIZE - 1], ids=["magic", "crc", "header", "record"])
def test_scan_ends_at_the_first_damaged_batch(tmp_path: Path, batches: bytes, at: int) -> None:
    content = bytearray(batches)
    content[2 * SIZE + at] ^= 1
    assert offsets(written(tmp_path, bytes(content)), len(content)) == [0, 1]


@pytest.mark.parametrize("cut_bytes", [1, SIZE - 20, SIZE])
def test_torn_batch_is_no_batch(tmp_path: Path, batches: bytes, cut_bytes: int) -> None:
    content = batches[:-cut_bytes]
    assert offsets(written(tmp_path, content), len(content)) == [0, 1, 2]


def test_scan_ends_at_the_end_of_a_shorter_file(tmp_path: Path, batches: bytes) -> None:
    assert offsets(written(tmp_path, batches), len(batches) + 500) == [0, 1, 2, 3]
