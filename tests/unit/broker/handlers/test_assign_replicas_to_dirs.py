"""AssignReplicasToDirs, sent by a broker with several log directories."""

from __future__ import annotations

import pytest

from controller.image import TopicImage
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from tests.typed import present
from tests.unit.broker.controllers import epoch, query
from tests.unit.broker.whole_cluster import WholeCluster

Directory = AssignReplicasToDirsRequest.Directory


@pytest.fixture
def topic(three: WholeCluster) -> TopicImage:
    three.create(three.active, "t")
    return present(three.raft(three.active).image.topic("t"))


def assign(
    three: WholeCluster,
    topic: TopicImage,
    directory: bytes,
    *,
    broker_epoch: int | None = None,
    node: int | None = None,
) -> AssignReplicasToDirsResponse:
    partitions = [Directory.Topic.Partition(partition_index=0)]
    topics = [Directory.Topic(topic_id=topic.topic_id, partitions=partitions)]
    result: AssignReplicasToDirsResponse = query(
        three,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        0,
        node=node,
        broker_id=1,
        broker_epoch=epoch(three, 1) if broker_epoch is None else broker_epoch,
        directories=[Directory(id=directory, topics=topics)],
    )
    return result


def test_assignment_sets_the_replica_directory(three: WholeCluster, topic: TopicImage) -> None:
    [own] = three.raft(three.active).image.brokers[1].directories
    [directory] = assign(three, topic, own).directories
    assert directory.topics[0].partitions[0].error_code == ErrorCode.NONE
    state = three.partition(three.active, "t")
    assert state.directories[state.replicas.index(1)] == own


def test_stale_broker_epoch_assigns_nothing(three: WholeCluster, topic: TopicImage) -> None:
    assert assign(three, topic, b"d" * 16, broker_epoch=0).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_inactive_controller_refuses_assignments(three: WholeCluster, topic: TopicImage) -> None:
    assert assign(three, topic, b"d" * 16, node=three.follower()).error_code == ErrorCode.NOT_CONTROLLER
