"""The looks inside a batch that a topic's configuration demands; most topics demand none.

    cleanup.policy contains compact        each record needs a key: INVALID_RECORD, naming the ones without
    compression.type is not `producer`     a batch that came with another codec is packed anew with that one, at the
                                           topic's level for it
    barnabas.validate.records=true         each record must be well formed, and the header true of them

Only here are records of a client unpacked: never to more than `record_batch.MAX_INFLATED_BYTES`, nor more of them than
`record_scan.MAX_SCANNED_RECORDS`. What the header of a batch alone can show is checked by `record_batch.check_batch`
and by the log.
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
    """The batch is refused for some of its records: `record_errors` are (position in the batch, reason)."""

    def __init__(self, record_errors: list[tuple[int, str]]) -> None:
        first = "; ".join(f"record {at}: {reason}" for at, reason in record_errors[:_ERRORS_NAMED])
        super().__init__(
            ErrorCode.INVALID_RECORD,
            f"{len(record_errors)} of the batch's records cannot be appended: {first}",
        )
        self.record_errors = record_errors


def prepare(records: memoryview, header: BatchHeader, config: LogConfig, validate: bool) -> memoryview:
    """Return the bytes to append for a checked batch: usually `records`, otherwise the batch packed anew.

    KafkaError where its records break a rule of the topic.
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
    """Check that the unpacked records are where they should be, with a key if need be; return the largest timestamp."""
    largest = -(1 << 63)
    wrong: list[tuple[int, str]] = []
    for at, (offset, timestamp, keyed) in enumerate(scan_unpacked(header, data)):
        if offset != at:
            wrong.append((at, f"its offset delta is {offset}"))
        elif needs_keys and not keyed:
            wrong.append((at, "a compacted topic takes no record without a key"))
        if timestamp > largest:
            largest = timestamp
    if wrong:
        raise InvalidRecordsError(wrong)
    return largest


def _check_records(records: memoryview, header: BatchHeader) -> None:
    """Check every part of every record, and what the header says of them."""
    largest = max(record.timestamp for record in iter_records(records))
    if largest != header.max_timestamp:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"the largest timestamp is {largest}, not {header.max_timestamp} as the header says",
        )
