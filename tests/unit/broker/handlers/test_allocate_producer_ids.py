"""AllocateProducerIds, sent by a broker."""

from __future__ import annotations

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from tests.unit.broker.controllers import epoch, query
from tests.unit.broker.whole_cluster import WholeCluster


def allocate(
    three: WholeCluster, broker_id: int, broker_epoch: int, node: int | None = None
) -> AllocateProducerIdsResponse:
    result: AllocateProducerIdsResponse = query(
        three, ApiKey.ALLOCATE_PRODUCER_IDS, 0, node=node, broker_id=broker_id, broker_epoch=broker_epoch
    )
    return result


def test_blocks_of_two_brokers_are_adjacent_and_disjoint(three: WholeCluster) -> None:
    first = allocate(three, 1, epoch(three, 1))
    second = allocate(three, 2, epoch(three, 2))
    assert (first.error_code, first.producer_id_len) == (ErrorCode.NONE, 1000)
    assert second.producer_id_start == first.producer_id_start + first.producer_id_len


def test_blocks_of_two_active_controllers_are_disjoint(three: WholeCluster) -> None:
    first = allocate(three, 1, epoch(three, 1))
    three.kill(three.active)
    broker = three.running[0]
    second = allocate(three, broker, epoch(three, broker))
    assert second.producer_id_start >= first.producer_id_start + first.producer_id_len


def test_stale_broker_epoch_gets_no_block(three: WholeCluster) -> None:
    assert allocate(three, 1, 0).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_inactive_controller_allocates_no_block(three: WholeCluster) -> None:
    assert allocate(three, 1, epoch(three, 1), three.follower()).error_code == ErrorCode.NOT_CONTROLLER
