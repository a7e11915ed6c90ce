from pathlib import Path
from socket import socketpair

import pytest

from storage.disk import OsDisk
from storage.log.file_slice import FileSlice


@pytest.fixture
def part(tmp_path: Path) -> FileSlice:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    return FileSlice(OsDisk().open_file(str(path)), 2, 6)


def test_slice_is_read_in_parts(part: FileSlice) -> None:
    assert (part.read(0, 6), part.read(4, 2)) == (b"234567", b"67")
    assert part.read_nowait(1, 3) in (b"345", None)


def test_slice_is_sent_from_its_file_position(part: FileSlice) -> None:
    here, there = socketpair()
    with here, there:
        sent = part.send_nowait(here.fileno(), 1, 3)
        assert sent is None or there.recv(10) == b"345"


def test_a_slice_outlives_the_name_of_its_file(part: FileSlice) -> None:
    Path(part.file.path).unlink()
    assert part.read(0, part.size_bytes) == b"234567"


def test_shortened_file_is_a_disk_error(part: FileSlice) -> None:
    part.file.truncate(5)
    with pytest.raises(OSError, match="3 of 6 bytes read"):
        part.read(0, 6)
