"""The data that a broker has stored, read from its segment files without any code of the broker."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HEADER = struct.Struct(">qiibIhiqqqhii")


class Batch(NamedTuple):
    """The fields of a record batch's header that tests use."""

    base_offset: int
    record_count: int
    codec: str
    producer_id: int
    max_timestamp: int


def stored_batches(data_dir: Path, topic: str, partition: int = 0) -> Iterator[Batch]:
    """Read the headers of all batches of a partition."""
    for segment in sorted((data_dir / f"{topic}-{partition}").glob("*.log")):
        content = segment.read_bytes()
        at = 0
        while at < len(content):
            (
                base_offset,
                length,
                _epoch,
                magic,
                _crc,
                attributes,
                _delta,
                _first,
                largest,
                producer,
                _,
                _,
                count,
            ) = HEADER.unpack_from(content, at)
            assert magic == 2
            yield Batch(base_offset, count, CODECS[attributes & 7], producer, largest)
            at += 12 + length
