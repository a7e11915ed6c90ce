"""Metadata transactions (KIP-868): records of several batches applied together or dropped."""

from __future__ import annotations

import pytest

from controller.metadata_transaction import MetadataTransaction
from protocol.errors import InvariantError
from protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from protocol.schema import Message

BEGIN, END, ABORT = BeginTransactionRecord(name="t"), EndTransactionRecord(), AbortTransactionRecord(reason="r")
A, B, C, D = (FeatureLevelRecord(name=name, feature_level=1) for name in "abcd")


def taken(*batches: tuple[Message, ...]) -> list[tuple[Message, ...]]:
    transaction = MetadataTransaction()
    return [transaction.replay(batch) for batch in batches]


def test_records_outside_transactions_are_applied_immediately() -> None:
    assert taken((A,), (B, C)) == [(A,), (B, C)]


def test_records_of_a_transaction_are_applied_together_when_it_ends() -> None:
    assert taken((A, BEGIN, B), (C,), (END, D)) == [(A,), (), (B, C, D)]
    assert taken((BEGIN, A, B, END)) == [(A, B)]


def test_records_of_a_transaction_that_is_aborted_are_dropped() -> None:
    assert taken((BEGIN, A), (B, ABORT, C), (D,)) == [(), (C,), (D,)]


def test_transaction_is_open_until_its_end_record() -> None:
    transaction = MetadataTransaction()
    states = []
    for batch in ((A,), (BEGIN,), (B,), (ABORT,), (BEGIN, C), (END,)):
        transaction.replay(batch)
        states.append(transaction.is_open)
    assert states == [False, True, True, False, True, False]


@pytest.mark.parametrize("batches", [((BEGIN,), (BEGIN,)), ((END,),), ((ABORT,),), ((BEGIN, END), (END,))])
def test_misplaced_begin_or_end_records_are_rejected(batches: tuple[tuple[Message, ...], ...]) -> None:
    with pytest.raises(InvariantError, match="transaction"):
        taken(*batches)
