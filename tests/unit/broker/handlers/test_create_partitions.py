"""CreatePartitions, sent by a client."""

from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest
from tests.disks import FaultyDisk
from tests.typed import present
from tests.unit.broker.conftest import NewController
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.topics import create


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added(controlled: ControllerNode, version: int) -> None:
    create(controlled, "t")
    topics = [
        CreatePartitionsRequest.Topic(name=name, count=count, assignments=None)
        for name, count in (("t", 4), ("nope", 2))
    ]
    response = controlled.query(ApiKey.CREATE_PARTITIONS, version, topics=topics, timeout_ms=5000, validate_only=False)
    assert {result.name: result.error_code for result in response.results} == {
        "t": ErrorCode.NONE,
        "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert len(present(controlled.image.topic("t")).partitions) == 4


def test_a_full_disk_refuses_partitions(new_controller: NewController) -> None:
    disk = FaultyDisk()
    node = new_controller(disk)
    create(node, "t")
    disk.full = True
    topics = [CreatePartitionsRequest.Topic(name="t", count=4, assignments=None)]
    response = node.query(ApiKey.CREATE_PARTITIONS, 3, topics=topics, timeout_ms=5000, validate_only=False)
    assert [result.error_code for result in response.results] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert len(present(node.image.topic("t")).partitions) == 1
    disk.full = False
