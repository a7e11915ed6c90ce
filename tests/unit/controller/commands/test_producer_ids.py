"""AllocateProducerIds."""

from __future__ import annotations

from functools import partial

import pytest

from controller.commands.producer_ids import allocate_producer_ids
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from protocol.records.metadata import ProducerIdsRecord
from tests.unit.controller.cluster import Cluster


def allocate(cluster: Cluster, broker_id: int = 1, epoch: int | None = None) -> tuple[int, int]:
    """Return the first id and the size of a block."""
    known = cluster.image.brokers[1].epoch if epoch is None else epoch
    request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=known)
    response = cluster.apply(partial(allocate_producer_ids, request=request))
    return response.producer_id_start, response.producer_id_len


def test_blocks_follow_each_other() -> None:
    cluster = Cluster()
    assert allocate(cluster) == (0, 1000)
    assert allocate(cluster) == (1000, 1000)
    assert cluster.image.next_producer_id == 2000


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, 99), (2, 0)])
def test_only_a_registered_broker_gets_a_producer_id_block(broker_id: int, epoch: int) -> None:
    with pytest.raises(KafkaError) as stale:
        allocate(Cluster(), broker_id, epoch)
    assert stale.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_exhausted_producer_ids_are_an_error() -> None:
    cluster = Cluster()
    cluster.replay([ProducerIdsRecord(broker_id=1, next_producer_id=(1 << 63) - 1000)])
    with pytest.raises(KafkaError):
        allocate(cluster)
