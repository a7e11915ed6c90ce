"""Validation and recompression of produced records, where the topic requires it (Kafka: `LogValidator`).

    cleanup.policy contains compact        each record needs a key: INVALID_RECORD, with the records without one
    compression.type is not `producer`     a batch in another codec is recompressed, at the topic's level
    barnabas.validate.records=true         each record must be well formed, and the batch header match the records

By default a batch is appended without decompression. Only this module decompresses a client's records: at most
`record_batch.MAX_INFLATED_BYTES`, and at most `record_scan.MAX_SCANNED_RECORDS` records. `record_batch.check_batch` and
the log check what the batch header alone shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.compression import Compression
from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import BatchHeader, iter_records, repack, unpack
from protocol.record_scan import check_scannable, scan_unpacked

if TYPE_CHECKING:
    from storage.log.log import LogConfig

_NAMED_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_ERRORS_NAMED = 3


class InvalidRecordsError(KafkaError):
    """The batch is refused because of the records in `record_errors`: (position in the batch, reason)."""

    def __init__(self, record_errors: list[tuple[int, str]]) -> None:
        first = "; ".join(f"record {at}: {reason}" for at, reason in record_errors[:_ERRORS_NAMED])
        super().__init__(
            ErrorCode.INVALID_RECORD,
            f"{len(record_errors)} records of the batch are invalid: {first}",
        )
        self.record_errors = record_errors


def validate_records(records: memoryview, header: BatchHeader, config: LogConfig, validate: bool) -> memoryview:
    """Return the bytes to append for a batch whose header is checked: `records` itself, or the recompressed batch.

    Raise KafkaError if a record breaks a rule of the topic.
    """
    needs_keys = "compact" in config.cleanup_policy
    codec = _NAMED_CODECS.get(config.compression_type)
    keep = codec is None or codec is header.compression
    if keep and not needs_keys and not validate:
        return records
    check_scannable(header)
    if validate:
        _check_records(records, header)
    data = unpack(records, header)
    largest = _scan(header, data, needs_keys)
    if codec is None or keep:
        return records
    return memoryview(repack(header, data, codec, _level(codec, config), largest))


def _level(codec: Compression, config: LogConfig) -> int | None:
    if codec is Compression.GZIP:
        return config.compression_gzip_level
    if codec is Compression.LZ4:
        return config.compression_lz4_level
    return config.compression_zstd_level if codec is Compression.ZSTD else None


def _scan(header: BatchHeader, data: bytes, needs_keys: bool) -> int:
    """Check offset deltas, and keys if required, of the decompressed records; return the largest timestamp."""
    largest = -(1 << 63)
    wrong: list[tuple[int, str]] = []
    for at, (offset, timestamp, keyed) in enumerate(scan_unpacked(header, data)):
        if offset != at:
            wrong.append((at, f"unexpected offset delta {offset}"))
        elif needs_keys and not keyed:
            wrong.append((at, "compacted topic cannot accept message without key"))
        if timestamp > largest:
            largest = timestamp
    if wrong:
        raise InvalidRecordsError(wrong)
    return largest


def _check_records(records: memoryview, header: BatchHeader) -> None:
    """Decode every record, and check the largest timestamp against the header."""
    largest = max(record.timestamp for record in iter_records(records))
    if largest != header.max_timestamp:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"the largest timestamp is {largest}, but {header.max_timestamp} in the batch header",
        )
