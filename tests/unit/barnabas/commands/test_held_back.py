from __future__ import annotations

import pytest

from barnabas.commands._held_back import notes, partition_of
from broker.coordinator.runtime.coordinator_runtime import partition_for


@pytest.mark.parametrize("group", ["", "readers", "polygenelubricants", "gruppe-ä", "\U0001f600", "a" * 300])
def test_partition_of_a_group_is_that_of_its_coordinator(group: str) -> None:
    assert partition_of(group, 50) == partition_for(group, 50)


def test_pending_offsets_without_access_to_their_transaction_are_noted() -> None:
    row = {"topic": "t", "partition": 1, "pending": True, "stable_end": None, "end": None, "holder": None}
    assert notes({"partitions": [row], "transactions": []}) == [
        "offsets of t-1 are pending, and COMMITTED is older: consumers wait for the end of an open transaction"
    ]
