"""AlterPartition, sent by a partition leader."""

from __future__ import annotations

import pytest

from controller.image import TopicImage
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tests.typed import present
from tests.unit.broker.controllers import epoch, query
from tests.unit.broker.whole_cluster import WholeCluster

Partition = AlterPartitionRequest.Topic.Partition


@pytest.fixture
def topic(three: WholeCluster) -> TopicImage:
    three.create(three.active, "t")
    return present(three.raft(three.active).image.topic("t"))


def alter(
    three: WholeCluster, topic: TopicImage, isr: list[int], *, broker_epoch: int | None = None, node: int | None = None
) -> AlterPartitionResponse:
    state = topic.partitions[0]
    partition = Partition(
        partition_index=0,
        leader_epoch=state.leader_epoch,
        new_isr_with_epochs=[Partition.BrokerState(broker_id=one, broker_epoch=epoch(three, one)) for one in isr],
        partition_epoch=state.partition_epoch,
    )
    result: AlterPartitionResponse = query(
        three,
        ApiKey.ALTER_PARTITION,
        3,
        node=node,
        broker_id=state.leader,
        broker_epoch=epoch(three, state.leader) if broker_epoch is None else broker_epoch,
        topics=[AlterPartitionRequest.Topic(topic_id=topic.topic_id, partitions=[partition])],
    )
    return result


def test_leader_changes_isr(three: WholeCluster, topic: TopicImage) -> None:
    state = topic.partitions[0]
    isr = sorted({state.leader, next(one for one in state.replicas if one != state.leader)})
    [of_topic] = alter(three, topic, isr).topics
    [answer] = of_topic.partitions
    assert (answer.error_code, answer.isr, answer.leader_id) == (ErrorCode.NONE, isr, state.leader)
    assert answer.partition_epoch == state.partition_epoch + 1


def test_stale_broker_epoch_of_the_leader_changes_nothing(three: WholeCluster, topic: TopicImage) -> None:
    assert alter(three, topic, [topic.partitions[0].leader], broker_epoch=0).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_inactive_controller_changes_no_isr(three: WholeCluster, topic: TopicImage) -> None:
    answer = alter(three, topic, [topic.partitions[0].leader], node=three.follower())
    assert answer.error_code == ErrorCode.NOT_CONTROLLER
