"""Topics that are asked for by name, on a disk that is full."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.internal_topics import create_on_demand, ensure_internal_topic
from controller.topic_names import CONSUMER_OFFSETS
from protocol.errors import ErrorCode, KafkaError
from tests.disks import FaultyDisk
from tests.unit.broker.controller_node import ControllerNode


def test_no_topic_is_created_on_demand_where_there_is_no_space(tmp_path: Path) -> None:
    disk = FaultyDisk()
    node = ControllerNode(str(tmp_path), disk)
    node.start()
    disk.full = True
    response = node.wait(create_on_demand(node, ["t", "u"]))  # type: ignore[arg-type]
    assert {topic.name: topic.error_code for topic in response.topics} == {
        "t": ErrorCode.KAFKA_STORAGE_ERROR,
        "u": ErrorCode.KAFKA_STORAGE_ERROR,
    }
    with pytest.raises(KafkaError, match="No space left"):
        node.wait(ensure_internal_topic(node, CONSUMER_OFFSETS))  # type: ignore[arg-type]
    disk.full = False
    assert node.wait(ensure_internal_topic(node, CONSUMER_OFFSETS)).name == CONSUMER_OFFSETS  # type: ignore[arg-type]
    node.close()
