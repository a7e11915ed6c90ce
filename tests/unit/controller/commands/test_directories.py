"""Where brokers say that their replicas lie."""

from __future__ import annotations

import pytest

from controller.commands.directories import assign_directories
from protocol.errors import ErrorCode, KafkaError
from tests.unit.controller.cluster import Cluster, directory


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(brokers=0)
    made.add_broker(1, directories=3)
    made.create("t", 2)
    return made


def assign(cluster: Cluster, homes: dict[tuple[bytes, int], bytes], broker_id: int = 1, epoch: int = -1) -> None:
    epoch = cluster.image.brokers[1].epoch if epoch < 0 else epoch
    cluster.apply(lambda image: assign_directories(image, broker_id, epoch, homes))


def topic_id(cluster: Cluster) -> bytes:
    topic = cluster.image.topic("t")
    assert topic is not None
    return topic.topic_id


def test_the_directory_is_noted_and_nothing_else_changes(cluster: Cluster) -> None:
    before = cluster.partition("t", 1)
    [other] = {directory(1, number) for number in range(2)} - {*before.directories}
    assign(cluster, {(topic_id(cluster), 1): other})
    after = cluster.partition("t", 1)
    assert after == before._replace(directories=(other,), partition_epoch=before.partition_epoch + 1)


def test_what_is_known_already_makes_no_record(cluster: Cluster) -> None:
    assign(cluster, {(topic_id(cluster), index): cluster.partition("t", index).directories[0] for index in (0, 1)})
    assert cluster.records == ()


def test_partitions_that_are_gone_or_elsewhere_are_passed_over(cluster: Cluster) -> None:
    epoch = cluster.add_broker(2)
    assign(cluster, {(topic_id(cluster), 7): directory(1), (bytes(16), 0): directory(1)})
    assert cluster.records == ()
    assign(cluster, {(topic_id(cluster), 0): directory(2)}, broker_id=2, epoch=epoch)
    assert cluster.records == ()


@pytest.mark.parametrize(
    ("broker_id", "epoch", "code"),
    [(1, 999, ErrorCode.STALE_BROKER_EPOCH), (9, 0, ErrorCode.BROKER_ID_NOT_REGISTERED)],
)
def test_only_a_registered_broker_is_believed(cluster: Cluster, broker_id: int, epoch: int, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        assign(cluster, {}, broker_id, epoch)
    assert refused.value.code is code
