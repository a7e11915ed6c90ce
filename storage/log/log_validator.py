"""Validation of batches before an append: a client's by size and timestamps, a leader's by CRC and offsets.

`LogAppendInfo`, the result of an append, is here too. `protocol.record_batch.check_batch` checks before that a client's
bytes are one well-formed batch, `producer_state.py` that its sequence is the next. Error codes are Apache Kafka's
(Kafka: `LogValidator`, `UnifiedLog.analyzeAndValidateRecords`).
"""

from functools import partial
from typing import NamedTuple

from protocol.errors import ErrorCode, KafkaError
from protocol.plural import count_of
from protocol.record_batch import NO_TIMESTAMP, BatchHeader, crc_matches, iter_batches
from protocol.record_scan import check_scannable, scan_records
from storage.log.config import FOREVER, LOG_APPEND_TIME, LogConfig

Buffer = bytes | bytearray | memoryview


class LogAppendInfo(NamedTuple):
    """The offsets of appended records; `log_append_time_ms` is -1 unless the broker set their timestamps."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    leader_epoch: int
    duplicate: bool


# Equivalent to the class, without a Python call per batch.
append_info = partial(tuple.__new__, LogAppendInfo)


def validate_batch(records: Buffer, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """Raise the errors of `check_size` and, unless the broker sets the timestamps, of `check_timestamps`."""
    size = len(records)
    if size > config.max_message_bytes or size > config.segment_bytes:
        check_size(size, config)
    if (
        header.max_timestamp > now_ms + config.message_timestamp_after_max_ms
        or config.message_timestamp_before_max_ms != FOREVER
    ) and config.timestamp_type != LOG_APPEND_TIME:
        check_timestamps(records, header, config, now_ms)


def check_size(size: int, config: LogConfig) -> None:
    """Raise MESSAGE_TOO_LARGE above `max.message.bytes`, RECORD_LIST_TOO_LARGE above `segment.bytes`."""
    if size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {count_of(size, 'byte')}; max.message.bytes is {config.max_message_bytes}",
        )
    if size > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {count_of(size, 'byte')}; segment.bytes is {config.segment_bytes}",
        )


def check_timestamps(records: Buffer, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """Raise INVALID_TIMESTAMP for records too long before or after now; having no timestamp is allowed.

    The header has the largest timestamp but not the smallest, so the records are scanned if
    `message.timestamp.before.max.ms` is set.
    """
    latest = now_ms + config.message_timestamp_after_max_ms
    if header.max_timestamp > latest:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {header.max_timestamp} is after {latest}, the last allowed by message.timestamp.after.max.ms",
        )
    if config.message_timestamp_before_max_ms == FOREVER:
        return
    check_scannable(header)
    earliest = now_ms - config.message_timestamp_before_max_ms
    for _, timestamp, _ in scan_records(records):
        if NO_TIMESTAMP != timestamp < earliest:
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {timestamp} is before {earliest}, the first allowed by message.timestamp.before.max.ms",
            )


def batches_to_follow(records: Buffer, next_offset: int, leader_epoch: int) -> tuple[list[BatchHeader], int]:
    """Return the headers of the batches in `records` that a follower appends, and their size in bytes.

    A partial batch at the end is excluded, and so are all batches from the first one of an epoch after `leader_epoch`:
    another leader has been elected since. Raise CORRUPT_MESSAGE if a batch is damaged, or starts below `next_offset`.
    """
    headers: list[BatchHeader] = []
    end = 0
    view = memoryview(records)
    for position, header in iter_batches(records):
        if header.partition_leader_epoch > leader_epoch:
            break
        end = position + header.size_bytes
        if not crc_matches(view[position:end], header):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the leader's batch at {header.base_offset} is damaged")
        if header.base_offset < next_offset:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"the leader sent the batch at {header.base_offset}, expected {next_offset}"
            )
        next_offset = header.next_offset
        headers.append(header)
    return headers, end
