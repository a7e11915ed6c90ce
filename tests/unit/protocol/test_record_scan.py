import pytest

from protocol.compression import Compression
from protocol.errors import ErrorCode, KafkaError
from protocol.record import Record
from protocol.record_batch import build_batch, iter_records, read_header, set_log_append_time, unpack
from protocol.record_scan import record_spans, scan_records

# Deltas with varints of one, two, three and more bytes.
DELTAS = (0, -1, 63, 64, -65, 8_191, 8_192, 1_048_575, 1_048_576, -(1 << 40))
RECORDS = [
    Record(0, 1_700_000_000_000 + delta, b"k" if number % 2 else None, number * 20 * b"v", ((b"h", None),))
    for number, delta in enumerate(DELTAS)
]


def seen(batch: bytearray) -> list[tuple[int, int, bool]]:
    return [(record.offset, record.timestamp, record.key is not None) for record in iter_records(batch)]


@pytest.mark.parametrize("codec", list(Compression))
def test_scan_matches_the_decoded_records(codec: Compression) -> None:
    batch = build_batch(RECORDS, base_offset=7, compression=codec)
    found = list(scan_records(batch))
    assert found == seen(batch)
    assert [timestamp - 1_700_000_000_000 for _, timestamp, _ in found] == list(DELTAS)


@pytest.mark.parametrize("count", [100, 10_000])
def test_scan_returns_offsets_of_many_records(count: int) -> None:
    batch = build_batch([(b"k", b"v")] * count, timestamp_ms=5)
    assert [offset for offset, _, _ in scan_records(batch)] == list(range(count))


def test_empty_key_counts_as_a_key() -> None:
    assert [keyed for _, _, keyed in scan_records(build_batch([(b"", b"v"), (None, b"v")]))] == [True, False]


def test_with_log_append_time_the_timestamp_is_the_batchs() -> None:
    batch = build_batch(RECORDS)
    set_log_append_time(batch, 42)
    assert {timestamp for _, timestamp, _ in scan_records(batch)} == {42}


@pytest.mark.parametrize("size", range(61, len(build_batch(RECORDS[:2]))))
def test_records_that_end_early_are_refused(size: int) -> None:
    batch = build_batch(RECORDS[:2])
    batch[8:12] = (size - 12).to_bytes(4, "big")
    with pytest.raises(KafkaError) as refused:
        list(scan_records(batch[:size]))
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_bytes_after_the_last_record_and_endless_numbers_are_refused() -> None:
    batch = build_batch(RECORDS[:2])
    longer = batch + b"\x00"
    longer[8:12] = (len(longer) - 12).to_bytes(4, "big")
    endless = batch[:61] + b"\xff" * (len(batch) - 61)
    for broken in (longer, endless):
        with pytest.raises(KafkaError) as refused:
            list(scan_records(broken))
        assert refused.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("base_offset", "timestamp"), [((1 << 63) - 1, 0), (0, (1 << 63) - 1)])
def test_a_record_beyond_64_bits_is_refused(base_offset: int, timestamp: int) -> None:
    batch = build_batch([Record(0, 0, None, None), Record(0, 1, None, None)])
    batch[:8] = base_offset.to_bytes(8, "big")
    batch[27:35] = timestamp.to_bytes(8, "big")
    with pytest.raises(KafkaError, match="record out of range: offset"):
        list(scan_records(batch))


SPANNED = [
    Record(0, 1000, b"key", b"value"),
    Record(0, 900, b"", b""),
    Record(0, 1 << 40, None, b"v" * 300, ((b"h", b"1"), (b"i", None))),
    Record(0, 1001, b"k" * 70_000, None),
    *(Record(0, 1000 + number * 37, b"%d" % number, None if number % 3 else b"x" * number) for number in range(300)),
]


def test_spans_match_the_decoded_records() -> None:
    batch = build_batch(SPANNED)
    header = read_header(batch)
    data = unpack(batch, header)
    spans = list(record_spans(data, header.record_count))
    assert [span[2:] for span in spans] == [
        (record.timestamp - 1000, record.offset, record.key, record.value is not None) for record in iter_records(batch)
    ]
    assert b"".join(data[start:end] for start, end, *_ in spans) == data


def test_unneeded_spans_are_skipped() -> None:
    batch = build_batch(SPANNED)
    header = read_header(batch)
    data = unpack(batch, header)
    wanted = bytes(number % 3 for number in range(header.record_count))
    spans = list(record_spans(data, header.record_count))
    assert list(record_spans(data, header.record_count, wanted)) == [
        span for number, span in enumerate(spans) if number % 3
    ]


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_spans_that_do_not_fill_the_batch_are_refused(cut: int) -> None:
    batch = build_batch([(b"key", b"value")] * 3)
    data = unpack(batch, read_header(batch))
    with pytest.raises(KafkaError, match="truncated record"):
        list(record_spans(data[:-cut], 3))
    with pytest.raises(KafkaError, match="bytes after the last of 2 records"):
        list(record_spans(data, 2))


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x02\x00", b"\xff" * 12])
def test_malformed_spans_are_refused(data: bytes) -> None:
    with pytest.raises(KafkaError):
        list(record_spans(data, 1))
