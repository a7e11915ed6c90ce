"""Records of `__transaction_state`: the state of each transactional id.

A key starts with its type (int16, 0), a value with the version that it was written in (int16). A key with a null value
is a tombstone: the id has expired.
"""

from __future__ import annotations

from protocol.primitives import VERSION_BYTES, Buffer, read_version
from protocol.schema import Int8, Int16, Int32, Int64, Message, String, message, struct, wire

TRANSACTION_STATUS = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}
"""The names of the states, as clients see them."""

_RECORD = "a record of __transaction_state"


@message(key=0, versions=(0, 0))
class TransactionLogKey(Message):
    """A transactional id."""

    transactional_id: String


@message(key=0, versions=(0, 1), flexible=1)
class TransactionLogValue(Message):
    """The state of the id's latest transaction."""

    producer_id: Int64
    previous_producer_id: Int64 = wire("1+", default=-1, tag=0)
    next_producer_id: Int64 = wire("1+", default=-1, tag=1)
    producer_epoch: Int16
    next_producer_epoch: Int16 = wire("1+", default=-1, tag=3)
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = wire("1+", default=0, tag=2)

    @struct
    class PartitionsSchema:
        topic: String
        partition_ids: list[Int32]


def decode_transaction_key(data: Buffer) -> TransactionLogKey | None:
    """Return the key, or None for an unknown type; DecodeError if it is damaged."""
    if read_version(data, _RECORD) != TransactionLogKey.API_KEY:
        return None
    return TransactionLogKey.decode(data, 0, VERSION_BYTES)


def decode_transaction_value(data: Buffer) -> TransactionLogValue:
    """Return the value; DecodeError if it is damaged or of an unknown version."""
    return TransactionLogValue.decode(data, read_version(data, _RECORD), VERSION_BYTES)
