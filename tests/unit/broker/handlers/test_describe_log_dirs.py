"""DescribeLogDirs, sent by a client."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.records.metadata import BrokerRegistrationChangeRecord
from tests.unit.broker.node import NODE_ID, Node


def describe(node: Node, version: int = 5, **requested: list[int]) -> Any:
    topics = [DescribeLogDirsRequest.Topic(topic=topic, partitions=indexes) for topic, indexes in requested.items()]
    [result] = node.answer(ApiKey.DESCRIBE_LOG_DIRS, version, topics=topics or None).results
    return result


def reported(result: Any) -> dict[str, dict[int, tuple[int, int, bool]]]:
    return {
        topic.name: {
            found.partition_index: (found.partition_size, found.offset_lag, found.is_future_key)
            for found in topic.partitions
        }
        for topic in result.topics
    }


@pytest.mark.parametrize("version", range(1, 6))
def test_every_log_is_listed_with_its_size(node: Node, version: int) -> None:
    node.create("t", 2)
    node.create("u")
    node.append("t", index=1)
    size = os.path.getsize(f"{node.partition('t', 1).log.directory}/00000000000000000000.log")
    result = describe(node, version)
    assert reported(result) == {"t": {0: (0, 0, False), 1: (size, 0, False)}, "u": {0: (0, 0, False)}}
    assert (result.error_code, result.log_dir) == (ErrorCode.NONE, node.logs.directories[0].path)


def test_only_requested_partitions_with_local_logs_are_listed(node: Node) -> None:
    node.create("t", 3)
    node.create("u")
    assert reported(describe(node, t=[1, 7], missing=[0])) == {"t": {1: (0, 0, False)}}
    assert reported(node.answer(ApiKey.DESCRIBE_LOG_DIRS, 5, topics=[]).results[0]) == {}


def test_volume_sizes_are_returned(node: Node) -> None:
    result = describe(node)
    assert 0 < result.usable_bytes < result.total_bytes
    assert not result.is_cordoned


def test_cordoned_directory_is_marked(node: Node) -> None:
    node.register(NODE_ID, "here", 9092)
    cordoned = [node.logs.directories[0].directory_id]
    node.commit(BrokerRegistrationChangeRecord(broker_id=NODE_ID, broker_epoch=NODE_ID, cordoned_log_dirs=cordoned))
    assert describe(node, 5).is_cordoned


def test_failed_directory_has_only_an_error_code(node: Node) -> None:
    node.create("t")
    node.logs.directories[0].give_up(OSError(errno.EIO, "broken"))
    result = describe(node)
    assert (result.error_code, result.total_bytes, reported(result)) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, {})
