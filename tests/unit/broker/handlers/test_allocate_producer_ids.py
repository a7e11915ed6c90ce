"""AllocateProducerIds, sent by a broker."""

from __future__ import annotations

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from tests.unit.broker.controllers import ask, epoch
from tests.unit.broker.whole_cluster import WholeCluster


def allocate(
    three: WholeCluster, broker_id: int, broker_epoch: int, node: int | None = None
) -> AllocateProducerIdsResponse:
    result: AllocateProducerIdsResponse = ask(
        three, ApiKey.ALLOCATE_PRODUCER_IDS, 0, node=node, broker_id=broker_id, broker_epoch=broker_epoch
    )
    return result


def test_no_id_is_in_two_blocks(three: WholeCluster) -> None:
    first = allocate(three, 1, epoch(three, 1))
    second = allocate(three, 2, epoch(three, 2))
    assert (first.error_code, first.producer_id_len) == (ErrorCode.NONE, 1000)
    assert second.producer_id_start == first.producer_id_start + first.producer_id_len


def test_none_is_in_two_blocks_of_different_controllers_either(three: WholeCluster) -> None:
    first = allocate(three, 1, epoch(three, 1))
    three.kill(three.active)
    broker = three.running[0]
    second = allocate(three, broker, epoch(three, broker))
    assert second.producer_id_start >= first.producer_id_start + first.producer_id_len


def test_an_earlier_run_of_a_broker_gets_none(three: WholeCluster) -> None:
    assert allocate(three, 1, 0).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_who_does_not_lead_has_none(three: WholeCluster) -> None:
    assert allocate(three, 1, epoch(three, 1), three.follower()).error_code == ErrorCode.NOT_CONTROLLER
