from __future__ import annotations

import pytest

from broker.coordinator.transaction.records import (
    read_transaction,
    read_transactional_id,
    tombstone,
    transaction_record,
)
from broker.coordinator.transaction.transaction_metadata import TransactionMetadata, TransactionState
from broker.coordinator.transaction.transaction_partitions import TransactionPartitions
from protocol.errors import DecodeError
from protocol.records.transactions import decode_transaction_value

OPEN = TransactionMetadata(
    7,
    3,
    60_000,
    TransactionState.ONGOING,
    TransactionPartitions.of([("x", 1), ("x", 0), ("y", 2)]),
    start_ms=5,
    last_update_ms=6,
    previous_producer_id=6,
    client_transaction_version=2,
)
KEPT = OPEN._replace(next_producer_id=8, next_producer_epoch=4)


@pytest.mark.parametrize("level", [1, 2])
def test_value_is_version_1_from_transaction_version_1(level: int) -> None:
    key, value = transaction_record("t", OPEN, level)
    assert value is not None
    assert value[:2] == b"\0\1"
    assert (read_transactional_id(key), read_transaction(value)) == ("t", OPEN)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_next_producer_is_stored_whatever_the_transaction_version(level: int) -> None:
    _, value = transaction_record("t", KEPT, level)
    assert value is not None
    assert read_transaction(value) == KEPT


def test_value_is_version_0_with_transaction_version_0() -> None:
    _, value = transaction_record("t", OPEN, 0)
    assert value is not None
    assert value[:2] == b"\0\0"
    assert read_transaction(value) == OPEN._replace(previous_producer_id=-1, client_transaction_version=0)


@pytest.mark.parametrize("level", [0, 2])
def test_value_is_encoded_as_the_message_is(level: int) -> None:
    topics = {"x": 200, "y" * 200: 1, "\u00e9": 130}
    partitions = TransactionPartitions.of((topic, index) for topic, count in topics.items() for index in range(count))
    _, value = transaction_record("t", OPEN._replace(partitions=partitions), level)
    assert value is not None
    message = decode_transaction_value(value)
    assert message.transaction_partitions is not None
    assert {each.topic: each.partition_ids for each in message.transaction_partitions} == {
        topic: list(range(count)) for topic, count in topics.items()
    }
    assert value[2:] == message.encode(min(level, 1))


def test_empty_transaction_has_no_partitions() -> None:
    empty = TransactionMetadata(7, 0, 60_000)
    _, value = transaction_record("t", empty, 2)
    assert value is not None
    assert read_transaction(value) == empty


def test_last_producer_epoch_is_not_stored() -> None:
    _, value = transaction_record("t", OPEN._replace(last_producer_epoch=2), 2)
    assert value is not None
    assert read_transaction(value).last_producer_epoch == -1


def test_tombstone_has_the_key_of_the_records() -> None:
    assert tombstone("t") == (transaction_record("t", OPEN, 2)[0], None)


def test_key_of_another_kind_is_skipped() -> None:
    assert read_transactional_id(b"\0\1\0\1t") is None


def test_unknown_state_cannot_be_read() -> None:
    _, value = transaction_record("t", OPEN, 0)
    assert value is not None
    at = 2 + 8 + 2 + 4
    with pytest.raises(DecodeError, match="unknown transaction state 9"):
        read_transaction(value[:at] + b"\x09" + value[at + 1 :])


@pytest.mark.parametrize("state", [TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE])
def test_state_that_is_never_stored_cannot_be_read(state: TransactionState) -> None:
    _, value = transaction_record("t", OPEN._replace(state=state), 0)
    assert value is not None
    with pytest.raises(DecodeError, match=f"unknown transaction state {state.value}"):
        read_transaction(value)


def test_unknown_version_cannot_be_read() -> None:
    _, value = transaction_record("t", OPEN, 0)
    assert value is not None
    with pytest.raises(DecodeError):
        read_transaction(b"\0\2" + value[2:])
