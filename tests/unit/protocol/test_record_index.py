import pytest

from protocol.errors import KafkaError
from protocol.record import Record
from protocol.record_batch import build_batch, iter_records, read_header, unpack
from protocol.record_index import record_spans

RECORDS = [
    Record(0, 1000, b"key", b"value"),
    Record(0, 900, b"", b""),
    Record(0, 1 << 40, None, b"v" * 300, ((b"h", b"1"), (b"i", None))),
    Record(0, 1001, b"k" * 70_000, None),
    *(Record(0, 1000 + number * 37, b"%d" % number, None if number % 3 else b"x" * number) for number in range(300)),
]


def test_spans_match_the_decoded_records() -> None:
    batch = build_batch(RECORDS)
    header = read_header(batch)
    data = unpack(batch, header)
    spans = list(record_spans(data, header.record_count))
    assert [span[2:] for span in spans] == [
        (record.timestamp - 1000, record.offset, record.key, record.value is not None) for record in iter_records(batch)
    ]
    assert b"".join(data[start:end] for start, end, *_ in spans) == data


def test_unneeded_spans_are_skipped() -> None:
    batch = build_batch(RECORDS)
    header = read_header(batch)
    data = unpack(batch, header)
    wanted = bytes(number % 3 for number in range(header.record_count))
    spans = list(record_spans(data, header.record_count))
    assert list(record_spans(data, header.record_count, wanted)) == [
        span for number, span in enumerate(spans) if number % 3
    ]


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_records_that_do_not_fill_the_batch_are_refused(cut: int) -> None:
    batch = build_batch([(b"key", b"value")] * 3)
    data = unpack(batch, read_header(batch))
    with pytest.raises(KafkaError, match="truncated record"):
        list(record_spans(data[:-cut], 3))
    with pytest.raises(KafkaError, match="bytes after the last of 2 records"):
        list(record_spans(data, 2))


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x02\x00", b"\xff" * 12])
def test_malformed_records_are_refused(data: bytes) -> None:
    with pytest.raises(KafkaError):
        list(record_spans(data, 1))
