from collections.abc import Mapping

from protocol.compression import Compression
from protocol.record_batch import NO_TIMESTAMP, EndTxnMarker, build_batch, crc_matches, iter_records, read_header
from storage.cleaner.batch_cleaner import BatchCleaner, LastBatch
from storage.cleaner.offset_map import OffsetMap
from storage.cleaner.transactions import Transactions
from storage.log.transaction_index import AbortedTxn
from storage.log.transaction_marker import build_marker
from storage.steps import finish

NOW_MS = 10_000


def clean(
    batch: bytearray,
    last: Mapping[bytes, int],
    *,
    producers: Mapping[int, LastBatch] | None = None,
    aborted: tuple[AbortedTxn, ...] = (),
    end_offset: int = 1000,
    now_ms: int = NOW_MS,
) -> bytes | None:
    """Return the cleaned `batch`, where the offset map holds the `last` offsets of keys up to offset 99."""
    offsets = OffsetMap(1 << 16, 1 << 16)  # keys are looked up, not marked by offset
    for key, offset in last.items():
        offsets.put(key, offset)
    offsets.latest_offset = 99
    cleaner = BatchCleaner(
        offsets,
        Transactions(aborted),
        producers or {},
        segment_end_offset=end_offset,
        now_ms=now_ms,
        delete_retention_ms=500,
    )
    header = read_header(batch)
    left = finish(cleaner.clean(bytes(batch), header))
    if left is None:
        return None
    assert crc_matches(left, read_header(left))
    return bytes(left)


def test_a_batch_without_anything_to_remove_is_the_same_bytes() -> None:
    batch = build_batch([(b"a", b"1"), (b"b", b"2")], base_offset=10, compression=Compression.GZIP)
    assert clean(batch, {b"a": 10}) == bytes(batch)


def test_empty_cleaned_batch_is_removed() -> None:
    assert clean(build_batch([(b"a", b"1")]), {b"a": 50}) is None


def test_the_last_batch_of_a_segment_stays_empty() -> None:
    left = clean(build_batch([(b"a", b"1")] * 3, base_offset=7), {b"a": 50}, end_offset=10)
    assert left is not None
    header = read_header(left)
    assert (len(left), header.record_count, header.base_offset, header.next_offset) == (61, 0, 7, 10)
    assert clean(bytearray(left), {}, end_offset=10) == left
    assert clean(bytearray(left), {}) is None


def test_time_index_has_no_entry_for_an_empty_last_batch() -> None:
    left = clean(build_batch([(b"a", b"1")], base_offset=7, timestamp_ms=5000), {b"a": 50}, end_offset=8)
    assert left is not None
    assert read_header(left).max_timestamp == NO_TIMESTAMP


def test_last_batch_of_a_producer_stays_empty() -> None:
    batch = build_batch([(b"a", b"1")] * 3, base_offset=7, producer_id=4, producer_epoch=1, base_sequence=20)
    left = clean(batch, {b"a": 50}, producers={4: LastBatch(1, 9)})
    assert left is not None
    assert read_header(left).last_sequence == 22
    assert clean(batch, {b"a": 50}, producers={4: LastBatch(1, 12), 5: LastBatch(1, 9)}) is None


def test_rule_20_last_marker_of_a_producer_without_other_batches_stays_empty() -> None:
    """With transaction.version 2 a marker begins the next epoch, which has no records yet."""
    marker = build_marker(4, 2, EndTxnMarker(True, 0), NOW_MS)
    dated = clean(marker, {})
    assert dated is not None
    later_ms = NOW_MS + 500
    left = clean(bytearray(dated), {}, producers={4: LastBatch(2, None)}, now_ms=later_ms)
    assert left is not None
    assert (read_header(left).record_count, read_header(left).producer_epoch) == (0, 2)
    assert clean(bytearray(dated), {}, producers={4: LastBatch(3, None)}, now_ms=later_ms) is None
    assert clean(bytearray(dated), {}, producers={4: LastBatch(2, 99)}, now_ms=later_ms) is None


def test_records_beyond_the_offset_map_stay() -> None:
    assert clean(build_batch([(b"a", b"1")], base_offset=100), {b"a": 50}) is not None


def test_records_without_a_key_are_removed() -> None:
    left = clean(build_batch([(None, b"1"), (b"a", b"1")]), {b"a": 1})
    assert left is not None
    assert [record.key for record in iter_records(left)] == [b"a"]


def test_delete_horizon_does_not_change() -> None:
    batch = build_batch([(b"a", None), (b"b", b"1"), (b"c", b"1")], timestamp_ms=3)
    once = clean(batch, {})
    assert once is not None
    assert read_header(once).delete_horizon_ms == NOW_MS + 500
    again = clean(bytearray(once), {b"c": 50}, now_ms=NOW_MS + 499)
    assert again is not None
    assert read_header(again).delete_horizon_ms == NOW_MS + 500
    assert [(record.key, record.timestamp) for record in iter_records(again)] == [(b"a", 3), (b"b", 3)]
    assert read_header(again).max_timestamp == 3
    last = clean(bytearray(again), {}, now_ms=NOW_MS + 500)
    assert last is not None
    assert [record.key for record in iter_records(last)] == [b"b"]


def test_aborted_records_are_removed_even_if_last_of_their_key() -> None:
    batch = build_batch(
        [(b"a", b"1")], base_offset=5, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    assert clean(batch, {}, aborted=(AbortedTxn(1, 5, 6, 7),)) is None
    assert clean(batch, {}) == bytes(batch)
