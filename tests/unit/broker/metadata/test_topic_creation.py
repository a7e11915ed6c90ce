"""Automatic topic creation: existing topics, leader changes, and full disks."""

from __future__ import annotations

import pytest

from broker.metadata.internal_topics import create_on_demand, ensure_internal_topic
from broker.metadata.topic_creation import create_if_missing
from controller.topic_names import CONSUMER_OFFSETS
from protocol.errors import ErrorCode, KafkaError
from tests.disks import FaultyDisk
from tests.unit.broker.conftest import NewController
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.whole_cluster import WholeCluster


def test_automatic_topic_creation_fails_on_full_disk(new_controller: NewController) -> None:
    disk = FaultyDisk()
    node = new_controller(disk)
    disk.full = True
    response = node.wait(create_on_demand(node.broker, ["t", "u"]))
    assert {topic.name: topic.error_code for topic in response.topics} == {
        "t": ErrorCode.KAFKA_STORAGE_ERROR,
        "u": ErrorCode.KAFKA_STORAGE_ERROR,
    }
    with pytest.raises(KafkaError, match="No space left"):
        node.wait(ensure_internal_topic(node.broker, CONSUMER_OFFSETS))
    disk.full = False
    assert node.wait(ensure_internal_topic(node.broker, CONSUMER_OFFSETS)).name == CONSUMER_OFFSETS


def test_a_topic_is_created_once(controlled: ControllerNode, caplog: pytest.LogCaptureFixture) -> None:
    for partitions in (3, 3, None, 5, 1):
        controlled.wait(create_if_missing(controlled.broker, "t", partitions))
    assert len(controlled.image.topic("t").partitions) == 3  # type: ignore[union-attr]
    assert [message for message in caplog.messages if message.startswith("--topic")] == [
        "--topic t:5: the topic exists with 3 partitions; `barnabas topic alter t --partitions 5` adds the others",
        "--topic t:1: the topic exists with 3 partitions; partitions cannot be removed",
    ]


def test_topic_creation_moves_to_successor_of_deposed_controller() -> None:
    cluster = WholeCluster()
    cluster.start()
    active = cluster.active
    broker = cluster.broker(active)
    for other in {1, 2, 3} - {active}:
        cluster.cut(active, other)
    creating = broker.loop.create_task(create_if_missing(broker, "t", 1))
    cluster.until(lambda: not broker.raft.leads)
    for other in {1, 2, 3} - {active}:
        cluster.cut(active, other, up=True)
    cluster.until(creating.done)
    creating.result()
    # A disconnected broker may be fenced by now; topic creation does not wait for it.
    cluster.until(lambda: cluster.partition(active, "t") is not None)
    cluster.close()


def test_failed_topic_creation_returns_reason(controlled: ControllerNode) -> None:
    with pytest.raises(KafkaError) as refused:
        controlled.wait(create_if_missing(controlled.broker, "a b", None))
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
