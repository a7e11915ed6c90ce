"""Broker 1 leads `t`; 2 and 3 have replicas; the high watermark is 2, the log end offset is 3."""

from __future__ import annotations

import pytest

from broker.replication.isr import is_awaited, is_eligible, with_joiners, without_laggards
from broker.replication.partition import Partition
from controller.image import BrokerImage
from tests.unit.broker.node import Node

LAG_MS = 100
EPOCH = 7


def registered(*, fenced: bool = False, stopping: bool = False, epoch: int = EPOCH) -> BrokerImage:
    return BrokerImage(
        broker_id=2,
        epoch=epoch,
        incarnation_id=bytes(16),
        endpoints={},
        features={},
        rack=None,
        fenced=fenced,
        in_controlled_shutdown=stopping,
        directories=(),
    )


ALIVE = {2: registered(), 3: registered()}


@pytest.fixture
def partition(node: Node) -> Partition:
    node.create("t", replicas=(1, 2, 3))
    for _ in range(3):
        node.append("t")
    partition = node.partition("t")
    for broker in (2, 3):
        partition.acknowledge(broker, 2, 0, 1000, EPOCH)
    return partition


class TestLeaving:
    def test_who_has_been_behind_for_too_long_leaves(self, partition: Partition) -> None:
        partition.acknowledge(3, 3, 0, 1000, EPOCH)
        assert without_laggards(partition, LAG_MS, LAG_MS) is None
        assert without_laggards(partition, LAG_MS + 1, LAG_MS) == frozenset({1, 3})

    def test_nobody_leaves_while_a_change_is_on_its_way(self, partition: Partition) -> None:
        partition.propose(frozenset({1, 3}))
        assert without_laggards(partition, 100_000, LAG_MS) is None

    def test_the_leader_alone_stays(self, partition: Partition) -> None:
        assert without_laggards(partition, 100_000, LAG_MS) == frozenset({1})


class TestJoining:
    @pytest.fixture
    def partition(self, partition: Partition, node: Node) -> Partition:
        node.shrink("t", [1, 3])
        return partition

    def test_who_has_all_that_is_committed_joins(self, partition: Partition) -> None:
        assert with_joiners(partition, ALIVE, 0, LAG_MS) == frozenset({1, 2, 3})

    def test_who_lacks_a_committed_record_does_not(self, partition: Partition) -> None:
        partition.acknowledge(2, 1, 0, 1000, EPOCH)
        assert with_joiners(partition, ALIVE, 0, LAG_MS) is None

    def test_who_lacks_records_from_before_the_leaders_epoch_does_not(self, partition: Partition) -> None:
        partition.epoch_start_offset = 3
        assert with_joiners(partition, ALIVE, 0, LAG_MS) is None

    def test_who_still_has_records_that_were_deleted_does_not(self, partition: Partition) -> None:
        partition.log.advance_log_start(1)
        assert with_joiners(partition, ALIVE, 0, LAG_MS) is None
        partition.acknowledge(2, 2, 1, 1000, EPOCH)
        assert with_joiners(partition, ALIVE, 0, LAG_MS) == frozenset({1, 2, 3})

    def test_who_would_have_to_leave_at_once_does_not(self, partition: Partition) -> None:
        partition.followers[2].caught_up_ms = 1000
        assert with_joiners(partition, ALIVE, 1000 + LAG_MS, LAG_MS) == frozenset({1, 2, 3})
        assert with_joiners(partition, ALIVE, 1001 + LAG_MS, LAG_MS) is None

    def test_nobody_joins_while_a_change_is_on_its_way(self, partition: Partition) -> None:
        partition.propose(frozenset({1}))
        assert with_joiners(partition, ALIVE, 0, LAG_MS) is None

    @pytest.mark.parametrize(
        "broker", [registered(fenced=True), registered(stopping=True), registered(epoch=EPOCH + 1), None]
    )
    def test_who_is_not_alive_in_the_incarnation_that_fetches_does_not(
        self, partition: Partition, broker: BrokerImage | None
    ) -> None:
        assert with_joiners(partition, {} if broker is None else {2: broker}, 0, LAG_MS) is None

    def test_who_does_not_say_its_epoch_may_join(self, partition: Partition) -> None:
        partition.acknowledge(2, 2, 0, 1000)
        assert with_joiners(partition, ALIVE, 0, LAG_MS) == frozenset({1, 2, 3})

    def test_who_has_not_fetched_in_this_epoch_is_not_eligible(self, partition: Partition, node: Node) -> None:
        node.elect("t", 1)
        assert not is_eligible(partition.followers[2], {2: registered(epoch=-1)})

    def test_the_high_watermark_waits_for_who_is_close_and_eligible(self, partition: Partition) -> None:
        follower = partition.followers[2]
        follower.caught_up_ms = 1000
        assert is_awaited(partition, follower, ALIVE, 1000 + LAG_MS, LAG_MS)
        assert not is_awaited(partition, follower, ALIVE, 1001 + LAG_MS, LAG_MS)
        assert not is_awaited(partition, follower, {2: registered(fenced=True)}, 1000, LAG_MS)
        assert not is_awaited(partition, partition.followers[3], ALIVE, 0, LAG_MS)
