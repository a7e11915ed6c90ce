from pathlib import Path

import pytest

from protocol.errors import KafkaError
from storage.cleaner.batch_reader import BatchReader
from storage.log.log import Log
from storage.steps import finish
from tests.compacted import COMPACTED, put
from tests.logs import open_log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path, COMPACTED._replace(segment_bytes=1 << 20))
    for size in (10, 5000, 10, 10, 900, 2000):
        put(log, (b"k", b"v" * size))
    return log


def read(reader: BatchReader) -> list[int]:
    found = []
    while (chunk := finish(reader.chunk())) is not None:
        found += [header.base_offset for _, header in reader.batches(chunk)]
    return found


@pytest.mark.parametrize("chunk_bytes", [1, 1024, 1100, 6000, 1 << 20])
def test_reader_returns_whole_batches_for_any_chunk_size(log: Log, chunk_bytes: int) -> None:
    reader = BatchReader(log.segments[0], 0, chunk_bytes)
    assert read(reader) == [0, 1, 2, 3, 4, 5]
    assert reader.bytes_read == log.size_bytes


def test_reading_begins_at_the_start_offset(log: Log) -> None:
    segment = log.segments[0]
    assert read(BatchReader(segment, segment.position_of(3), 1024)) == [3, 4, 5]


def test_error_of_a_damaged_batch_names_its_position(log: Log) -> None:
    segment = log.segments[0]
    at = segment.position_of(2)
    segment.file.pwrite(b"\xff", at + 65)
    with pytest.raises(KafkaError, match=f"no valid record batch at byte {at} of .*log"):
        read(BatchReader(segment, 0, 1 << 20))


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x7f\xff\xff\xff"])
def test_invalid_length_is_no_batch(log: Log, length: bytes) -> None:
    log.segments[0].file.pwrite(length, 8)
    with pytest.raises(KafkaError, match="no valid record batch at byte 0"):
        read(BatchReader(log.segments[0], 0, 1024))


def test_error_of_another_batch_format_names_its_position(log: Log) -> None:
    segment = log.segments[0]
    at = segment.position_of(2)
    segment.file.pwrite(b"\x01", at + 16)
    with pytest.raises(KafkaError, match=f"no valid record batch at byte {at} of .*log"):
        read(BatchReader(segment, 0, 1 << 20))
