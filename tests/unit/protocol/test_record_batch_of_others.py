"""Batches that other implementations write and read; `tests/golden/README.md` has the sources of the bytes."""

import warnings
from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch

from protocol.compression import Compression
from protocol.record import Record
from protocol.record_batch import assign, build_batch, check_batch, iter_batches, iter_records

with warnings.catch_warnings():
    # kafka-python reads its resources by an API that only Python 3.11 reports as deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

GOLDEN = Path(__file__).parents[2] / "golden" / "record_batches"
TIME_MS = 1_700_000_000_000
RECORDS = [
    Record(0, TIME_MS, b"k1", b"hello"),
    Record(1, TIME_MS + 1, None, b"x" * 5000),
    Record(2, TIME_MS - 1, b"k2", None),
    Record(3, TIME_MS + 2, b"", b"", ((b"h1", b"v1"), (b"h1", None), ("h\u00e9".encode(), b""))),
    Record(4, TIME_MS + 3, b"k3", b"0123456789abcdef" * 5000),
]
# kafka-python's producer does not accept null headers.
WITHOUT_NULL_HEADER = [
    record._replace(headers=tuple((name, value or b"") for name, value in record.headers)) for record in RECORDS
]


@pytest.mark.parametrize("path", sorted(GOLDEN.iterdir()), ids=lambda path: path.stem)
def test_batches_of_every_client_are_valid_and_hold_their_records(path: Path) -> None:
    client, codec = path.stem.split("-")
    batch = bytearray(path.read_bytes())
    assert [header.size_bytes for _, header in iter_batches(batch)] == [len(batch)]
    header = check_batch(memoryview(batch))
    assert header.compression is Compression[codec.upper()]
    assert header.max_timestamp == TIME_MS + 3
    null_header = client in ("java", "librdkafka")
    assert list(iter_records(batch)) == (RECORDS if null_header else WITHOUT_NULL_HEADER)


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("theirs", [KafkaPythonBatch, AiokafkaBatch], ids=["kafka-python", "aiokafka"])
def test_other_decoders_read_our_batches(theirs: type, codec: Compression) -> None:
    batch = build_batch(RECORDS, compression=codec, producer_id=7, producer_epoch=1, base_sequence=3)
    assign(batch, 1000, 4)
    read = theirs(bytes(batch))
    assert read.validate_crc()
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == (7, 1, 3)
    assert (read.magic, read.max_timestamp) == (2, TIME_MS + 3)
    records = [
        Record(
            record.offset - 1000,
            record.timestamp,
            record.key,
            record.value,
            tuple((name.encode(), value) for name, value in record.headers),
        )
        for record in read
    ]
    assert records == RECORDS


def test_the_same_records_make_the_same_bytes_as_javas() -> None:
    theirs = (GOLDEN / "java-none.bin").read_bytes()
    _, header = next(iter_batches(theirs))
    ours = build_batch(RECORDS, producer_id=header.producer_id, producer_epoch=0, base_sequence=0)
    assign(ours, header.base_offset, header.partition_leader_epoch)
    assert bytes(ours) == theirs
