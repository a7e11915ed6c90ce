from pathlib import Path

import pytest

from protocol.compression import Compression
from protocol.record import Record
from protocol.record_batch import build_batch
from storage.disk import File, OsDisk
from storage.log.record_search import TimestampOffset, find_record
from storage.steps import finish
from tests.logs import stamped


def stored(folder: Path, batch: bytes | bytearray) -> File:
    file = OsDisk().open_file(str(folder / "x.log"), create=True)
    file.pwrite(batch, 0)
    return file


@pytest.mark.parametrize(
    ("timestamp", "from_offset", "found"), [(0, 0, (10, 0)), (11, 0, (30, 1)), (11, 2, (20, 2)), (31, 0, None)]
)
def test_first_record_at_or_after_the_timestamp_is_found(
    timestamp: int, from_offset: int, found: tuple[int, int] | None, tmp_path: Path
) -> None:
    expected = found and TimestampOffset(*found, -1)
    assert finish(find_record(stored(tmp_path, stamped([10, 30, 20])), 0, timestamp, from_offset)) == expected


def test_small_batch_that_may_decompress_to_much_is_decompressed_in_a_thread(tmp_path: Path) -> None:
    batch = build_batch([(None, bytes(1 << 20))], timestamp_ms=5, compression=Compression.ZSTD)
    assert len(batch) < 1000
    assert callable(next(find_record(stored(tmp_path, batch), 0, 5, 0)))


def test_large_batch_is_read_and_decompressed_in_a_thread(tmp_path: Path) -> None:
    batch = build_batch([Record(0, number, None, bytes(40)) for number in range(1000)])
    search = find_record(stored(tmp_path, batch), 0, 500, 0)
    read = next(search)
    assert callable(read)
    with pytest.raises(StopIteration) as found:
        search.send(read())
    assert found.value.value == (500, 500, -1)
