"""The records of `__transaction_state`: one for each transition of a transactional id (Kafka: `TransactionLog`).

A value is version 0 while transaction.version is 0, else version 1, which adds the previous producer id, the next
producer id and epoch, and the client's transaction.version. A key without a value is a tombstone: the id has expired.
The partitions are copied from the encoding that `TransactionPartitions` caches.
"""

from __future__ import annotations

from broker.coordinator.runtime.context import Record
from broker.coordinator.transaction.transaction_metadata import (
    IDLE,
    NO_PARTITIONS,
    ONGOING,
    PREPARED,
    TransactionMetadata,
    TransactionState,
)
from broker.coordinator.transaction.transaction_partitions import TransactionPartitions
from protocol.errors import DecodeError
from protocol.record_batch import NO_PRODUCER_ID
from protocol.records.transactions import (
    TransactionLogKey,
    TransactionLogValue,
    decode_transaction_key,
    decode_transaction_value,
)

_KEY_PREFIX = bytes(2)
_PARTITIONS_AT = 8 + 2 + 4 + 1  # after the producer id and epoch, the timeout and the state


def transaction_record(name: str, metadata: TransactionMetadata, transaction_version: int) -> Record:
    """Return the record of a transactional id's state, in the format of the finalized `transaction_version`."""
    version = record_version(transaction_version)
    if metadata.next_producer_id != NO_PRODUCER_ID:
        version = 1  # kept or prepared before transaction.version was lowered to 0, and lost without the next producer
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
    )
    if version > 0:
        value.previous_producer_id = metadata.previous_producer_id
        value.next_producer_id = metadata.next_producer_id
        value.next_producer_epoch = metadata.next_producer_epoch
        value.client_transaction_version = metadata.client_transaction_version
    encoded = value.encode(version)
    if metadata.state is not TransactionState.EMPTY:
        null_size = 1 if version > 0 else 4
        encoded = encoded[:_PARTITIONS_AT] + metadata.partitions.encode(version) + encoded[_PARTITIONS_AT + null_size :]
    return _key(name), version.to_bytes(2, "big") + encoded


def record_version(transaction_version: int) -> int:
    """Return the version of records' values with this finalized level of transaction.version."""
    return min(transaction_version, 1)


def tombstone(name: str) -> Record:
    """Return the tombstone of an expired transactional id."""
    return _key(name), None


_STORED_STATES = frozenset({ONGOING, *IDLE, *PREPARED})


def read_transactional_id(key: bytes) -> str | None:
    """Return the transactional id in a record's key, None for a key of an unknown version; raise DecodeError."""
    read = decode_transaction_key(key)
    return None if read is None else read.transactional_id


def read_transaction(value: bytes) -> TransactionMetadata:
    """Return the metadata in a record's value; raise DecodeError for an invalid one, an unknown version or state."""
    read = decode_transaction_value(value)
    if read.transaction_status not in _STORED_STATES:
        raise DecodeError(f"unknown transaction state {read.transaction_status}")
    state = TransactionState(read.transaction_status)
    partitions = NO_PARTITIONS
    if state is not TransactionState.EMPTY and read.transaction_partitions:
        partitions = TransactionPartitions.of(
            (topic.topic, partition) for topic in read.transaction_partitions for partition in topic.partition_ids
        )
    return TransactionMetadata(
        read.producer_id,
        read.producer_epoch,
        read.transaction_timeout_ms,
        state,
        partitions,
        read.transaction_start_timestamp_ms,
        read.transaction_last_update_timestamp_ms,
        read.previous_producer_id,
        read.next_producer_id,
        client_transaction_version=read.client_transaction_version,
        next_producer_epoch=read.next_producer_epoch,
    )


def _key(name: str) -> bytes:
    return _KEY_PREFIX + TransactionLogKey(transactional_id=name).encode(0)
