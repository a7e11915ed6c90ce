"""AllocateProducerIds."""

from __future__ import annotations

from functools import partial

import pytest

from controller.commands.producer_ids import allocate_producer_ids
from protocol.errors import ErrorCode, KafkaError
from protocol.records.metadata import ProducerIdsRecord
from tests.unit.controller.cluster import Cluster


def test_blocks_follow_each_other() -> None:
    cluster = Cluster()
    allocate = partial(allocate_producer_ids, broker_id=1, broker_epoch=cluster.image.brokers[1].epoch)
    assert cluster.apply(allocate) == range(1000)
    assert cluster.apply(allocate) == range(1000, 2000)
    assert cluster.image.next_producer_id == 2000


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, 99), (2, 0)])
def test_only_a_registered_broker_gets_a_producer_id_block(broker_id: int, epoch: int) -> None:
    with pytest.raises(KafkaError) as stale:
        Cluster().apply(lambda image: allocate_producer_ids(image, broker_id, epoch))
    assert stale.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_exhausted_producer_ids_are_an_error() -> None:
    cluster = Cluster()
    cluster.replay([ProducerIdsRecord(broker_id=1, next_producer_id=(1 << 63) - 1000)])
    with pytest.raises(KafkaError):
        cluster.apply(lambda image: allocate_producer_ids(image, 1, image.brokers[1].epoch))
