from __future__ import annotations

import pytest

from broker.coordinator.transaction.transaction_partitions import (
    MAX_BYTES,
    MAX_PARTITIONS,
    TransactionPartitions,
    _Topic,
)

SOME = TransactionPartitions.of([("z", 3), ("a", 1), ("z", 0), ("z", 3)])


def test_partitions_are_a_set() -> None:
    assert set(SOME) == {("z", 0), ("z", 3), ("a", 1)}
    assert len(SOME) == 3
    assert ("z", 3) in SOME
    assert ("z", 1) not in SOME
    assert ("b", 1) not in SOME
    assert TransactionPartitions.of([("z", 3)]) <= SOME
    assert not TransactionPartitions.of([("z", 1)]) <= SOME
    assert not TransactionPartitions.of([("b", 3)]) <= SOME


def test_order_is_that_of_the_additions() -> None:
    both = SOME.with_all(TransactionPartitions.of([("m", 0), ("a", 0)]))
    assert list(both.by_topic()) == [("z", [0, 3]), ("a", [0, 1]), ("m", [0])]
    assert len(both) == 5
    assert len(SOME) == 3
    assert len(both.with_all(SOME)) == 5


@pytest.mark.parametrize("version", [0, 1])
def test_an_addition_encodes_only_the_topics_that_it_changes(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    SOME.encode(version)
    more = SOME.with_all(TransactionPartitions.of([("a", 2), ("z", 0)]))
    encoded = []

    class Struct:
        @staticmethod
        def pack(_format: str, *indexes: int) -> bytes:
            encoded.append(indexes)
            return b""

    monkeypatch.setattr("broker.coordinator.transaction.transaction_partitions.struct", Struct)
    more.encode(version)
    assert encoded == [(1, 2)]


def test_size_is_limited() -> None:
    most = TransactionPartitions.of(("x", index) for index in range(MAX_PARTITIONS))
    assert not most.is_too_large(1)
    assert most.with_all(SOME).is_too_large(1)


def test_encoding_is_limited() -> None:
    size = len(_Topic("n" * 249, frozenset({0})).encode(1))
    count = MAX_BYTES // size
    names = (f"{number:0249}" for number in range(count + 1))
    assert TransactionPartitions.of((name, 0) for name in names).is_too_large(1)
    assert not TransactionPartitions.of((f"{number:0249}", 0) for number in range(count - 1)).is_too_large(1)
