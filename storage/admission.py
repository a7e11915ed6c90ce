"""What a leader demands of a client's batch by the topic's configuration: its size and its timestamps.

That the bytes are one well-formed batch is `protocol.record_batch.check_batch`'s to tell, and that its sequence
follows `producer_state.py`'s. Errors are those of Apache Kafka.
"""

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import NO_TIMESTAMP, BatchHeader, iter_records
from storage.log_config import FOREVER, LogConfig

Buffer = bytes | bytearray | memoryview


def check_size(size: int, config: LogConfig) -> None:
    """Raise MESSAGE_TOO_LARGE for a batch above `max.message.bytes`, RECORD_LIST_TOO_LARGE for one above a segment."""
    if size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size} bytes; max.message.bytes is {config.max_message_bytes}",
        )
    if size > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {size} bytes; segment.bytes is {config.segment_bytes}"
        )


def check_timestamps(records: Buffer, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """Raise INVALID_TIMESTAMP for records too long before or after now; having no timestamp is allowed.

    The header tells the largest timestamp but not the smallest, so records are looked at where
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
    earliest = now_ms - config.message_timestamp_before_max_ms
    for record in iter_records(records):
        if NO_TIMESTAMP != record.timestamp < earliest:
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {record.timestamp} is before {earliest}, "
                "the first allowed by message.timestamp.before.max.ms",
            )
