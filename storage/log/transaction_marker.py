"""Transaction markers: the control batch that completes a transaction in a partition (KIP-98).

The marker is one record, commit or abort, with the coordinator's epoch, which fences earlier coordinators.
Whether the transaction exists is the coordinator's concern; `ProducerStateManager` computes the last stable offset.
"""

from struct import Struct

from protocol.errors import InvariantError
from protocol.record_batch import (
    ControlType,
    EndTxnMarker,
    assign,
    build_batch,
    control_record_key,
    end_txn_marker,
    read_header,
    set_log_append_time,
)
from storage.log.config import LOG_APPEND_TIME
from storage.log.log import Log
from storage.log.log_validator import LogAppendInfo

_VALUE = Struct(">hi")
_VERSION = 0


def build_marker(producer_id: int, producer_epoch: int, marker: EndTxnMarker, now_ms: int) -> bytearray:
    """Return the control batch that completes the producer's transaction."""
    kind = ControlType.COMMIT if marker.committed else ControlType.ABORT
    return build_batch(
        [(control_record_key(kind), _VALUE.pack(_VERSION, marker.coordinator_epoch))],
        timestamp_ms=now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def append_marker(
    log: Log, records: bytearray, leader_epoch: int, now_ms: int, *, transaction_version: int = 0
) -> LogAppendInfo:
    """Append a marker as the leader; its offset and leader epoch are set in place.

    Raise, with nothing appended, the KafkaError of `ProducerStateManager.check_marker`, KAFKA_STORAGE_ERROR, or
    InvariantError if `records` is not a marker.
    """
    marker = end_txn_marker(records) if read_header(records).is_control else None
    if marker is None:
        raise InvariantError(f"{log}: not a transaction marker")
    append_time_ms = -1
    if log.config.timestamp_type == LOG_APPEND_TIME:
        append_time_ms = now_ms
        set_log_append_time(records, now_ms)
    log.producers.check_marker(read_header(records), marker, transaction_version)
    assign(records, log.log_end_offset, leader_epoch)
    log.append_as_follower(records, leader_epoch, now_ms)
    header, start = read_header(records), log.log_start_offset
    return LogAppendInfo(
        header.base_offset, header.last_offset, header.max_timestamp, append_time_ms, start, leader_epoch, False
    )
