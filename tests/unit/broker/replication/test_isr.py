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
        partition.update_follower_fetch_state(broker, 2, 0, 1000, EPOCH)
    return partition


class TestIsrShrink:
    def test_follower_beyond_max_lag_leaves_isr(self, partition: Partition) -> None:
        partition.update_follower_fetch_state(3, 3, 0, 1000, EPOCH)
        assert without_laggards(partition, LAG_MS, LAG_MS) is None
        assert without_laggards(partition, LAG_MS + 1, LAG_MS) == frozenset({1, 3})

    def test_no_follower_leaves_isr_during_pending_change(self, partition: Partition) -> None:
        partition.propose(frozenset({1, 3}))
        assert without_laggards(partition, 100_000, LAG_MS) is None

    def test_leader_never_leaves_isr(self, partition: Partition) -> None:
        assert without_laggards(partition, 100_000, LAG_MS) == frozenset({1})


class TestIsrExpand:
    @pytest.fixture
    def partition(self, partition: Partition, node: Node) -> Partition:
        node.shrink("t", [1, 3])
        return partition

    def test_follower_at_high_watermark_joins_isr(self, partition: Partition) -> None:
        assert with_joiners(partition, ALIVE, 0, LAG_MS) == frozenset({1, 2, 3})

    def test_follower_below_high_watermark_does_not_join_isr(self, partition: Partition) -> None:
        partition.update_follower_fetch_state(2, 1, 0, 1000, EPOCH)
        assert with_joiners(partition, ALIVE, 0, LAG_MS) is None

    def test_follower_below_epoch_start_offset_does_not_join_isr(self, partition: Partition) -> None:
        partition.epoch_start_offset = 3
        assert with_joiners(partition, ALIVE, 0, LAG_MS) is None

    def test_follower_below_log_start_does_not_join_isr(self, partition: Partition) -> None:
        partition.log.advance_log_start(1)
        assert with_joiners(partition, ALIVE, 0, LAG_MS) is None
        partition.update_follower_fetch_state(2, 2, 1, 1000, EPOCH)
        assert with_joiners(partition, ALIVE, 0, LAG_MS) == frozenset({1, 2, 3})

    def test_lagging_follower_does_not_join_isr(self, partition: Partition) -> None:
        partition.followers[2].caught_up_ms = 1000
        assert with_joiners(partition, ALIVE, 1000 + LAG_MS, LAG_MS) == frozenset({1, 2, 3})
        assert with_joiners(partition, ALIVE, 1001 + LAG_MS, LAG_MS) is None

    def test_no_follower_joins_isr_during_pending_change(self, partition: Partition) -> None:
        partition.propose(frozenset({1}))
        assert with_joiners(partition, ALIVE, 0, LAG_MS) is None

    @pytest.mark.parametrize(
        "broker", [registered(fenced=True), registered(stopping=True), registered(epoch=EPOCH + 1), None]
    )
    def test_fenced_or_stopping_or_reregistered_broker_does_not_join_isr(
        self, partition: Partition, broker: BrokerImage | None
    ) -> None:
        assert with_joiners(partition, {} if broker is None else {2: broker}, 0, LAG_MS) is None

    def test_follower_without_broker_epoch_may_join_isr(self, partition: Partition) -> None:
        partition.update_follower_fetch_state(2, 2, 0, 1000)
        assert with_joiners(partition, ALIVE, 0, LAG_MS) == frozenset({1, 2, 3})

    def test_follower_without_fetch_in_leader_epoch_is_not_eligible(self, partition: Partition, node: Node) -> None:
        node.elect("t", 1)
        assert not is_eligible(partition.followers[2], {2: registered(epoch=-1)})

    def test_high_watermark_waits_for_eligible_follower_within_max_lag(self, partition: Partition) -> None:
        follower = partition.followers[2]
        follower.caught_up_ms = 1000
        assert is_awaited(partition, follower, ALIVE, 1000 + LAG_MS, LAG_MS)
        assert not is_awaited(partition, follower, ALIVE, 1001 + LAG_MS, LAG_MS)
        assert not is_awaited(partition, follower, {2: registered(fenced=True)}, 1000, LAG_MS)
        assert not is_awaited(partition, partition.followers[3], ALIVE, 0, LAG_MS)
