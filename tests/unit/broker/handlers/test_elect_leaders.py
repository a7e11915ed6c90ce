"""ElectLeaders, sent by a client."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.elect_leaders import ElectLeadersRequest
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.topics import create

KEY = ApiKey.ELECT_LEADERS


def reported(response: Any) -> list[tuple[str, list[tuple[int, int]]]]:
    return [
        (topic.topic, [(one.partition_id, one.error_code) for one in topic.partition_result])
        for topic in response.replica_election_results
    ]


@pytest.mark.parametrize("version", range(3))
def test_response_has_an_entry_for_each_partition(controlled: ControllerNode, version: int) -> None:
    create(controlled, "t", 2)
    topics = [ElectLeadersRequest.Topic(topic=name, partitions=[1, 7]) for name in ("t", "missing")]
    response = controlled.query(KEY, version, election_type=0, topic_partitions=topics)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert response.error_code == ErrorCode.NONE
    assert reported(response) == [
        ("t", [(1, ErrorCode.ELECTION_NOT_NEEDED), (7, unknown)]),
        ("missing", [(1, unknown), (7, unknown)]),
    ]


def test_request_for_all_partitions_lists_none_if_none_needs_an_election(controlled: ControllerNode) -> None:
    create(controlled, "t", 2)
    assert reported(controlled.query(KEY, 2, election_type=1, topic_partitions=None)) == [("t", [])]
