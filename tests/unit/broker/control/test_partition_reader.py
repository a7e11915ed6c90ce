"""The records of a partition, read in pieces. Transactions: `test_records.py`."""

from __future__ import annotations

import pytest

from broker.control import partition_reader
from broker.control.partition_reader import PartitionReader, committed_end
from broker.control.partitions import led_partition
from broker.replication.partition import Isolation
from tests.unit.broker.control.controlled_broker import ControlledBroker


@pytest.fixture
def five(broker: ControlledBroker) -> ControlledBroker:
    """Write five records in two batches."""
    broker.post("/v1/topics", topic="t")
    for values in ("ab", "cde"):
        broker.post("/v1/topics/t/records", records=[{"value": value} for value in values])
    return broker


def test_records_are_read_over_several_reads_of_the_log(
    five: ControlledBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_reader, "_READ_BYTES", 1)
    reader = PartitionReader(led_partition(five.broker, "t", 0), Isolation.READ_UNCOMMITTED, 0)
    assert [record.value for record in reader.records(100)] == [b"a", b"b", b"c", b"d", b"e"]
    assert reader.offset == 5


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_reading_goes_on_where_the_limit_ended_it(five: ControlledBroker, limit: int) -> None:
    reader = PartitionReader(led_partition(five.broker, "t", 0), Isolation.READ_UNCOMMITTED, 0)
    found = []
    while some := list(reader.records(limit)):
        assert len(some) <= limit
        found += some
    assert [record.offset for record in found] == [0, 1, 2, 3, 4]


def test_the_end_of_a_consumer_is_what_is_committed(five: ControlledBroker) -> None:
    partition = led_partition(five.broker, "t", 0)
    assert [committed_end(partition, isolation) for isolation in Isolation] == [5, 5, 5]
