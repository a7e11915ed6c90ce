"""Checks inside a batch that a topic's configuration requires."""

from __future__ import annotations

import pytest

from broker.replication.record_validation import InvalidRecordsError, validate_records
from protocol.compression import Compression
from protocol.errors import ErrorCode, KafkaError
from protocol.record import Record
from protocol.record_batch import build_batch, check_batch, iter_records, read_header
from storage.log.config import LogConfig

COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
KEYED = [(b"k1", b"v1"), (b"k2", None)]
SECOND_WITHOUT_KEY = [(b"k1", b"v1"), (None, b"v2"), (b"k3", b"v3")]


def prepared(batch: bytearray, config: LogConfig, *, validate: bool = False) -> memoryview:
    records = memoryview(batch)
    return validate_records(records, check_batch(records), config, validate)


def test_valid_batch_is_not_copied() -> None:
    batch = build_batch(SECOND_WITHOUT_KEY, compression=Compression.GZIP)
    assert prepared(batch, LogConfig()).obj is batch


def test_compacted_topic_accepts_records_with_keys() -> None:
    batch = build_batch(KEYED)
    assert prepared(batch, COMPACTED).obj is batch


@pytest.mark.parametrize("codec", list(Compression))
def test_a_compacted_topic_refuses_a_batch_and_names_the_records_without_a_key(codec: Compression) -> None:
    with pytest.raises(InvalidRecordsError) as refused:
        prepared(build_batch(SECOND_WITHOUT_KEY, compression=codec), COMPACTED)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert [at for at, _ in refused.value.record_errors] == [1]


def test_compact_and_delete_together_need_keys_too() -> None:
    with pytest.raises(InvalidRecordsError):
        prepared(build_batch(SECOND_WITHOUT_KEY), LogConfig(cleanup_policy=frozenset({"compact", "delete"})))


@pytest.mark.parametrize("name", ["gzip", "lz4", "zstd"])
def test_batch_is_recompressed_at_topics_level(name: str) -> None:
    numbers = b" ".join(b"%d" % (number * number) for number in range(20_000))
    quick = LogConfig(compression_type=name, compression_gzip_level=1, compression_zstd_level=-5)
    best = quick._replace(compression_gzip_level=9, compression_lz4_level=17, compression_zstd_level=22)
    thorough = prepared(build_batch([(None, numbers)]), best)
    assert len(thorough) < len(prepared(build_batch([(None, numbers)]), quick))
    assert [record.value for record in iter_records(thorough)] == [numbers]


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("uncompressed", Compression.NONE),
        ("gzip", Compression.GZIP),
        ("snappy", Compression.SNAPPY),
        ("lz4", Compression.LZ4),
        ("zstd", Compression.ZSTD),
    ],
)
def test_batch_of_other_codec_is_recompressed_with_topics_codec(name: str, codec: Compression) -> None:
    records = [
        Record(0, 1_700_000_000_000, b"k", b"v" * 100, ((b"h", b"x"),)),
        Record(1, 1_700_000_000_007, None, None),
    ]
    came = Compression.LZ4 if codec is not Compression.LZ4 else Compression.NONE
    batch = build_batch(records, compression=came, producer_id=7, producer_epoch=2, base_sequence=40)
    packed = prepared(batch, LogConfig(compression_type=name))
    header = check_batch(packed)
    assert header.compression is codec
    assert list(iter_records(packed)) == records
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 40)
    assert header.max_timestamp == 1_700_000_000_007


def test_batch_with_topics_codec_is_unchanged() -> None:
    batch = build_batch(KEYED, compression=Compression.ZSTD)
    assert prepared(batch, LogConfig(compression_type="zstd")).obj is batch


def test_records_are_not_decoded_without_validation() -> None:
    batch = damaged(build_batch(KEYED))
    assert prepared(batch, LogConfig()).obj is batch
    with pytest.raises(KafkaError) as refused:
        prepared(batch, LogConfig(), validate=True)
    assert refused.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("config", [COMPACTED, LogConfig(compression_type="gzip")])
def test_batch_with_too_many_records_is_refused_before_decoding(config: LogConfig) -> None:
    batch = build_batch([(b"k", b"v")] * 3, compression=Compression.LZ4)
    for at, value in ((23, 100_000), (57, 100_001)):
        batch[at : at + 4] = value.to_bytes(4, "big")
    with pytest.raises(KafkaError) as refused:
        prepared(with_crc(batch), config)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "100000" in refused.value.message


def test_recompressed_batch_has_corrected_max_timestamp() -> None:
    batch = build_batch(KEYED, timestamp_ms=1000)
    batch[35:43] = (5000).to_bytes(8, "big")
    assert check_batch(prepared(with_crc(batch), LogConfig(compression_type="gzip"))).max_timestamp == 1000


def test_validation_finds_max_timestamp_of_no_record() -> None:
    batch = build_batch(KEYED, timestamp_ms=1000)
    batch[35:43] = (5000).to_bytes(8, "big")
    with pytest.raises(KafkaError) as refused:
        prepared(with_crc(batch), LogConfig(), validate=True)
    assert "timestamp" in refused.value.message


def test_validation_finds_records_out_of_place() -> None:
    batch = build_batch([(b"a", b"1"), (b"b", b"2")])
    second = 61 + 1 + batch[61] // 2
    assert batch[second + 3] == 2  # The offset delta: 1 in zig-zag encoding.
    batch[second + 3] = 4
    with pytest.raises(InvalidRecordsError) as refused:
        prepared(with_crc(batch), LogConfig(), validate=True)
    assert [at for at, _ in refused.value.record_errors] == [1]


def test_validation_accepts_valid_batch() -> None:
    batch = build_batch(KEYED, compression=Compression.SNAPPY, timestamp_ms=5)
    assert prepared(batch, LogConfig(), validate=True).obj is batch


def damaged(batch: bytearray) -> bytearray:
    """Make the first record's length exceed the batch, and keep the CRC valid."""
    batch[61] = 0x7E
    return with_crc(batch)


def with_crc(batch: bytearray) -> bytearray:
    from protocol.checksum import crc32c

    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    assert read_header(batch).crc == crc32c(bytes(batch[21:]))
    return batch
