import pytest

from protocol.errors import DecodeError
from protocol.records.transactions import (
    TransactionLogKey,
    TransactionLogValue,
    decode_transaction_key,
    decode_transaction_value,
)

VALUE = TransactionLogValue(
    producer_id=7,
    producer_epoch=1,
    transaction_timeout_ms=60_000,
    transaction_status=4,
    transaction_partitions=[TransactionLogValue.PartitionsSchema(topic="t", partition_ids=[0, 2])],
    transaction_last_update_timestamp_ms=5,
    transaction_start_timestamp_ms=3,
)


def test_a_key_names_its_transactional_id() -> None:
    key = TransactionLogKey(transactional_id="mover")
    assert decode_transaction_key(b"\0\0" + key.encode(0)) == key


def test_key_of_unknown_type_is_ignored() -> None:
    assert decode_transaction_key(b"\0\7" + b"mover") is None


@pytest.mark.parametrize("version", [0, 1])
def test_a_value_begins_with_its_version(version: int) -> None:
    assert decode_transaction_value(version.to_bytes(2, "big") + VALUE.encode(version)) == VALUE


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\7", (b"\0\1" + VALUE.encode(1))[:-1]])
def test_damage_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_transaction_value(data)
