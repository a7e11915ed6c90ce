from __future__ import annotations

import pytest

from broker.coordinator.transaction.transaction_metadata import TransactionMetadata, TransactionState
from broker.coordinator.transaction.transaction_partitions import TransactionPartitions
from protocol.errors import InvariantError

NEW = TransactionMetadata(7, 0, 60_000)


def test_names_are_those_that_clients_see() -> None:
    assert [state.display_name for state in TransactionState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


def test_commit_without_a_transaction_is_a_defect() -> None:
    with pytest.raises(InvariantError, match="from Empty to PrepareCommit"):
        NEW.end(commit=True, client_transaction_version=2, new_producer_id=-1, now_ms=1)


def test_open_transaction_does_not_expire() -> None:
    assert NEW._replace(last_update_ms=0).has_expired(10, 10)
    assert not NEW._replace(last_update_ms=1).has_expired(10, 10)
    assert not NEW.add_partitions(TransactionPartitions.of([("x", 0)]), 2, 0).has_expired(10, 10)


def test_largest_epoch_stays_when_the_transaction_is_aborted() -> None:
    opened = NEW._replace(producer_epoch=32_767).add_partitions(TransactionPartitions.of([("x", 0)]), 2, 0)
    aborted = opened.end(commit=False, client_transaction_version=2, new_producer_id=8, now_ms=1)
    assert aborted.producer_epoch == opened.fence().producer_epoch == 32_767
    assert aborted.complete(2)[:2] == (8, 0)
