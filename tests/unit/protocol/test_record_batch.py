from collections.abc import Callable
from struct import pack_into, unpack_from

import pytest

from protocol.checksum import crc32c
from protocol.compression import Compression
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.record import Record, put_record
from protocol.record_batch import (
    HEADER_BYTES,
    MAX_RECORDS,
    MAX_SEQUENCE,
    ControlType,
    EndTxnMarker,
    assign,
    build_batch,
    check_batch,
    control_record_key,
    control_type,
    crc_matches,
    end_txn_marker,
    iter_batches,
    iter_records,
    read_header,
    set_log_append_time,
)

PAIRS = [(b"a", b"1"), (None, b"2"), (b"c", None)]
RECORDS = [
    Record(0, 1000, b"a", b"1", ((b"h", b"x"), (b"h", None))),
    Record(1, 900, None, b"2"),
    Record(2, 1100, b"", b""),
]


def sealed(batch: bytearray) -> bytearray:
    """Set the CRC of the batch's present content."""
    pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return batch


def altered(change: Callable[[bytearray], object], batch: bytearray | None = None) -> memoryview:
    batch = build_batch(PAIRS) if batch is None else batch
    change(batch)
    return memoryview(sealed(batch))


def refusal(records: memoryview | bytes | bytearray) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        check_batch(memoryview(records))
    return refused.value.code


def test_batch_header_has_the_built_values() -> None:
    batch = build_batch(
        RECORDS,
        base_offset=70,
        leader_epoch=5,
        compression=Compression.GZIP,
        producer_id=9,
        producer_epoch=2,
        base_sequence=40,
        is_transactional=True,
    )
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (70, 72, 73)
    assert (header.partition_leader_epoch, header.magic, header.record_count) == (5, 2, 3)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1100)
    assert (header.producer_id, header.producer_epoch) == (9, 2)
    assert (header.base_sequence, header.last_sequence) == (40, 42)
    assert header.compression is Compression.GZIP
    assert header.is_transactional
    assert not header.is_control
    assert not header.log_append_time
    assert header.delete_horizon_ms is None
    assert header.size_bytes == len(batch)


def test_each_field_is_where_kafkas_format_has_it() -> None:
    batch = build_batch(PAIRS, base_offset=1, leader_epoch=2, timestamp_ms=3, producer_id=4, producer_epoch=5,
                        base_sequence=6)  # fmt: skip
    assert unpack_from(">qiib", batch) == (1, len(batch) - 12, 2, 2)
    assert unpack_from(">I", batch, 17) == (crc32c(batch[21:]),)
    assert unpack_from(">hiqqqhii", batch, 21) == (0, 2, 3, 3, 4, 5, 6, 3)


@pytest.mark.parametrize("codec", Compression)
def test_records_round_trip_with_every_codec(codec: Compression) -> None:
    batch = build_batch(RECORDS, base_offset=0, compression=codec)
    assert list(iter_records(batch)) == RECORDS


def test_pairs_share_the_batchs_timestamp() -> None:
    batch = build_batch(PAIRS, base_offset=10, timestamp_ms=77)
    assert list(iter_records(batch)) == [
        Record(10, 77, b"a", b"1"),
        Record(11, 77, None, b"2"),
        Record(12, 77, b"c", None),
    ]


def test_a_batch_without_records_is_not_built() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_batch([])


def test_the_last_sequence_wraps_to_zero() -> None:
    assert read_header(build_batch(PAIRS, base_sequence=MAX_SEQUENCE - 1)).last_sequence == 0
    assert read_header(build_batch(PAIRS)).last_sequence == -1


def test_valid_batch_returns_its_header() -> None:
    batch = build_batch(PAIRS, producer_id=1, producer_epoch=0, base_sequence=0)
    assert check_batch(memoryview(batch)) == read_header(batch)


@pytest.mark.parametrize("size", [0, 1, 11, 16, 17, 60, 61, 70])
def test_less_than_one_batch_is_an_invalid_record(size: int) -> None:
    assert refusal(build_batch(PAIRS)[:size]) is ErrorCode.INVALID_RECORD


def test_more_than_one_batch_is_an_invalid_record() -> None:
    assert refusal(build_batch(PAIRS) + build_batch(PAIRS)) is ErrorCode.INVALID_RECORD
    assert refusal(build_batch(PAIRS) + b"\0") is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_sets_are_an_invalid_record(magic: int) -> None:
    # A whole message of magic 0 or 1: offset, size, crc, magic, attributes, (timestamp,) null key, null value.
    fields = b"\0" * 4 + bytes([magic, 0]) + b"\0" * 8 * magic + b"\xff" * 8
    assert refusal(b"\0" * 8 + len(fields).to_bytes(4, "big") + fields) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [-1, 3, 127])
def test_an_unknown_magic_is_a_corrupt_message(magic: int) -> None:
    assert refusal(altered(lambda batch: pack_into(">b", batch, 16, magic))) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-(2**31), -12, -1, 0, 10, 48])
def test_a_length_below_the_header_is_a_corrupt_message(length: int) -> None:
    assert refusal(altered(lambda batch: pack_into(">i", batch, 8, length))) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("at", [17, 21, 45, HEADER_BYTES, -1])
def test_a_flipped_bit_under_the_crc_is_a_corrupt_message(at: int) -> None:
    batch = build_batch(PAIRS)
    batch[at] ^= 1
    assert refusal(batch) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda batch: pack_into(">q", batch, 0, 1), ErrorCode.INVALID_RECORD),
        (lambda batch: pack_into(">i", batch, 57, 2), ErrorCode.INVALID_RECORD),
        (lambda batch: pack_into(">i", batch, 57, 4), ErrorCode.INVALID_RECORD),
        (lambda batch: pack_into(">i", batch, 23, 3), ErrorCode.INVALID_RECORD),
        (lambda batch: pack_into(">i4x4x", batch, 23, -1), ErrorCode.INVALID_RECORD),
        (lambda batch: (pack_into(">i", batch, 23, -1), pack_into(">i", batch, 57, 0)), ErrorCode.INVALID_RECORD),  # type: ignore[func-returns-value]  # called for its effect
        (lambda batch: (pack_into(">i", batch, 23, -6), pack_into(">i", batch, 57, -5)), ErrorCode.INVALID_RECORD),  # type: ignore[func-returns-value]  # called for its effect
        (lambda batch: pack_into(">h", batch, 21, 0x20), ErrorCode.INVALID_RECORD),
        (lambda batch: pack_into(">h", batch, 21, 0x40), ErrorCode.INVALID_RECORD),
        (lambda batch: pack_into(">h", batch, 21, 0x80), ErrorCode.INVALID_RECORD),
        (lambda batch: pack_into(">h", batch, 21, -0x8000), ErrorCode.INVALID_RECORD),
        (lambda batch: pack_into(">h", batch, 21, 0x08), ErrorCode.INVALID_TIMESTAMP),
        (lambda batch: pack_into(">h", batch, 21, 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (lambda batch: pack_into(">h", batch, 21, 7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (lambda batch: pack_into(">qhi", batch, 43, 5, 0, -1), ErrorCode.INVALID_RECORD),
    ],
    ids=[
        "base offset not 0",
        "count below the offsets",
        "count above the offsets",
        "offsets above the count",
        "negative offset delta",
        "no records",
        "a negative count",
        "control batch",
        "delete horizon",
        "unknown attribute",
        "highest attribute",
        "LogAppendTime",
        "codec 5",
        "codec 7",
        "producer without sequence",
    ],
)
def test_invalid_produce_batch_is_refused(change: Callable[[bytearray], object], code: ErrorCode) -> None:
    assert refusal(altered(change)) is code


def test_checking_copies_nothing() -> None:
    batch = build_batch([(None, b"x" * 1000)])
    view = memoryview(batch)
    check_batch(view)
    view.release()
    batch.append(0)  # BufferError if a view still existed


def test_assigning_keeps_the_crc_and_the_records() -> None:
    batch = build_batch(RECORDS)
    assign(memoryview(batch), 2**40, 17)
    header = read_header(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (2**40, 17)
    assert crc_matches(batch, header)
    assert [record.offset - 2**40 for record in iter_records(batch)] == [0, 1, 2]


def test_log_append_time_is_every_records_timestamp() -> None:
    batch = build_batch(RECORDS, compression=Compression.LZ4)
    set_log_append_time(memoryview(batch), 5000)
    header = read_header(batch)
    assert header.log_append_time
    assert header.max_timestamp == 5000
    assert header.compression is Compression.LZ4
    assert crc_matches(batch, header)
    assert [record.timestamp for record in iter_records(batch)] == [5000] * 3


def test_the_delete_horizon_is_the_base_timestamp_and_deltas_count_from_it() -> None:
    batch = build_batch(RECORDS)
    pack_into(">h", batch, 21, 0x40)
    pack_into(">q", batch, 27, 5000)
    assert read_header(batch).delete_horizon_ms == 5000
    assert [record.timestamp for record in iter_records(batch)] == [5000, 4900, 5100]


def test_a_header_needs_its_61_bytes() -> None:
    with pytest.raises(DecodeError, match="60 bytes"):
        read_header(bytes(60))
    with pytest.raises(DecodeError, match="10 bytes"):
        read_header(bytes(70), 60)


def test_batches_are_iterated_up_to_a_partial_one() -> None:
    first, second = build_batch(PAIRS), build_batch(RECORDS, base_offset=3)
    whole = first + second
    assert [(at, header.base_offset) for at, header in iter_batches(whole)] == [(0, 0), (len(first), 3)]
    for size in range(len(first), len(whole)):
        assert [at for at, _ in iter_batches(whole[:size])] == [0]


@pytest.mark.parametrize("change", [lambda b: pack_into(">b", b, 16, 1), lambda b: pack_into(">i", b, 8, 48)])
def test_bytes_that_are_no_batch_are_refused(change: Callable[[bytearray], object]) -> None:
    batch = build_batch(PAIRS)
    change(batch)
    with pytest.raises(DecodeError):
        list(iter_batches(batch))


def test_iteration_of_records_stops_at_the_end_of_the_batch() -> None:
    assert len(list(iter_records(build_batch(PAIRS) + build_batch(PAIRS)))) == 3


@pytest.mark.parametrize("count", [2, 4])
def test_a_wrong_count_of_records_is_refused(count: int) -> None:
    with pytest.raises(KafkaError) as refused:
        list(iter_records(altered(lambda batch: pack_into(">i", batch, 57, count))))
    assert refused.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", Compression)
def test_records_beyond_the_bound_are_refused(codec: Compression) -> None:
    batch = build_batch([(None, bytes(100_000))], compression=codec)
    with pytest.raises(KafkaError, match="more than 50000") as refused:
        next(iter_records(batch, 50_000))
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_damaged_compression_is_an_invalid_record() -> None:
    batch = build_batch(RECORDS, compression=Compression.ZSTD)
    batch[HEADER_BYTES] ^= 0xFF
    with pytest.raises(KafkaError) as refused:
        list(iter_records(batch))
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_a_codec_that_does_not_exist_is_unsupported() -> None:
    with pytest.raises(KafkaError) as refused:
        list(iter_records(altered(lambda batch: pack_into(">h", batch, 21, 6))))
    assert refused.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("kind", ControlType)
def test_control_type_is_parsed_from_its_key(kind: ControlType) -> None:
    assert control_type(control_record_key(kind)) is kind


def test_unknown_control_type_is_none() -> None:
    assert control_type(b"\0\0\0\x63") is None


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_a_control_record_needs_its_key(key: bytes | None) -> None:
    with pytest.raises(KafkaError):
        control_type(key)


def marker(kind: ControlType, value: bytes | None) -> bytearray:
    return build_batch([(control_record_key(kind), value)], is_control=True)


def test_a_marker_ends_a_transaction_with_its_coordinators_epoch() -> None:
    assert end_txn_marker(marker(ControlType.COMMIT, b"\0\0\0\0\0\x07")) == EndTxnMarker(True, 7)
    assert end_txn_marker(marker(ControlType.ABORT, b"\0\0\0\0\0\x08")) == EndTxnMarker(False, 8)


def test_other_control_batches_end_no_transaction() -> None:
    assert end_txn_marker(marker(ControlType.LEADER_CHANGE, b"anything")) is None


@pytest.mark.parametrize("value", [None, b"\0\0\0"])
def test_a_marker_needs_its_value(value: bytes | None) -> None:
    with pytest.raises(KafkaError):
        end_txn_marker(marker(ControlType.COMMIT, value))


def test_a_control_batch_emptied_by_compaction_has_no_marker() -> None:
    batch = marker(ControlType.COMMIT, b"\0\0\0\0\0\0")[:HEADER_BYTES]
    pack_into(">i", batch, 8, HEADER_BYTES - 12)
    pack_into(">i", batch, 57, 0)
    assert end_txn_marker(batch) is None


def test_impossible_record_count_is_refused_before_scanning() -> None:
    def claim(count: int) -> Callable[[bytearray], object]:
        return lambda batch: (pack_into(">i", batch, 23, count - 1), pack_into(">i", batch, 57, count))  # type: ignore[func-returns-value]  # called for its effect

    smallest = build_batch([(None, None)] * 10)
    assert check_batch(memoryview(smallest)).record_count == 10
    assert refusal(altered(claim(11), smallest)) is ErrorCode.INVALID_RECORD
    packed = build_batch(PAIRS, compression=Compression.ZSTD)
    assert check_batch(altered(claim(MAX_RECORDS), packed)).record_count == MAX_RECORDS
    assert refusal(altered(claim(MAX_RECORDS + 1), packed)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("timestamp_delta", "offset_delta"), [(2**63 - 1, 0), (0, 2**63 - 1)])
def test_a_record_whose_timestamp_or_offset_is_beyond_64_bits_is_refused(
    timestamp_delta: int, offset_delta: int
) -> None:
    payload = bytearray()
    put_record(payload, timestamp_delta, offset_delta, None, None, ())
    batch = build_batch([(None, None)], base_offset=1, timestamp_ms=1000)[:HEADER_BYTES] + payload
    pack_into(">i", batch, 8, len(batch) - 12)
    with pytest.raises(KafkaError) as refused:
        list(iter_records(sealed(batch)))
    assert refused.value.code is ErrorCode.INVALID_RECORD
