from __future__ import annotations

from functools import partial

import pytest

from controller.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from tests.unit.broker.conftest import NewController
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.group_node import GroupNode
from tests.unit.broker.node import Node

KEY = ApiKey.FIND_COORDINATOR


@pytest.fixture
def hosting(group_node: GroupNode) -> GroupNode:
    group_node.host()
    group_node.node.register(1, "here.example", 9092)
    group_node.node.register(2, "there.example", 9093)
    return group_node


@pytest.mark.parametrize("version", range(4))
def test_coordinator_is_the_leader_of_the_group_partition(hosting: GroupNode, version: int) -> None:
    answer = hosting.answer(KEY, version, key="g")
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "here.example", 9092)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_each_requested_group_has_its_own_coordinator(hosting: GroupNode, version: int) -> None:
    hosting.node.elect(CONSUMER_OFFSETS, 2, index=hosting.groups.runtime.partition_of("h"))
    answer = hosting.answer(KEY, version, coordinator_keys=["g", "h"])
    assert [(one.key, one.error_code, one.node_id, one.host, one.port) for one in answer.coordinators] == [
        ("g", 0, 1, "here.example", 9092),
        ("h", 0, 2, "there.example", 9093),
    ]


def test_leaderless_partition_has_no_coordinator(hosting: GroupNode) -> None:
    hosting.node.elect(CONSUMER_OFFSETS, -1, index=hosting.groups.runtime.partition_of("g"))
    [one] = hosting.answer(KEY, 4, coordinator_keys=["g"]).coordinators
    assert (one.error_code, one.node_id, one.host, one.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1)


@pytest.mark.parametrize("key_type", [2, 3])
@pytest.mark.parametrize("version", [1, 3])
def test_other_key_types_have_no_coordinator(hosting: GroupNode, version: int, key_type: int) -> None:
    answer = hosting.answer(KEY, version, key="x", key_type=key_type)
    assert (answer.error_code, answer.node_id) == (ErrorCode.INVALID_REQUEST, -1)
    assert answer.error_message


def test_transactional_id_creates_its_topic_and_has_its_leader(new_controller: NewController) -> None:
    querying = new_controller(transaction_state_log_num_partitions="7")
    [one] = querying.query(KEY, 4, coordinator_keys=["t"], key_type=1).coordinators
    assert (one.error_code, one.node_id) == (ErrorCode.NONE, 1)
    topic = querying.image.topic(TRANSACTION_STATE)
    assert topic is not None
    assert len(topic.partitions) == 7
    assert querying.image.topic(CONSUMER_OFFSETS) is None


class TestFirstGroup:
    """The first FindCoordinator request creates `__consumer_offsets`."""

    def test_response_waits_for_creation_of_the_offsets_topic(self, new_controller: NewController) -> None:
        querying = new_controller(offsets_topic_num_partitions="7")
        assert querying.image.topic(CONSUMER_OFFSETS) is None
        [one] = querying.query(KEY, 4, coordinator_keys=["g"]).coordinators
        assert (one.error_code, one.node_id, one.host, one.port) == (0, 1, "host1", 9092)
        topic = querying.image.topic(CONSUMER_OFFSETS)
        assert topic is not None
        assert len(topic.partitions) == 7

    def test_no_coordinator_while_the_offsets_topic_cannot_be_created(self, stopped_node: Node) -> None:
        stopped_node.open()  # not registered
        querying = ControllerNode(stopped_node)
        [one] = querying.query(KEY, 4, coordinator_keys=["g"]).coordinators
        assert one.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_response_waits_for_the_successor_of_a_suspected_coordinator(hosting: GroupNode) -> None:
    hosting.node.elect(CONSUMER_OFFSETS, 2, index=hosting.groups.runtime.partition_of("g"))
    suspects = hosting.node.broker.node_clients.suspects
    suspects.lost(2)
    index = hosting.groups.runtime.partition_of("g")
    hosting.node.loop.call_later(0.01, partial(hosting.node.elect, CONSUMER_OFFSETS, 1, index=index))
    hosting.node.loop.call_later(0.02, suspects.reached, 2)
    [one] = hosting.answer(KEY, 4, coordinator_keys=["g"]).coordinators
    assert one.node_id == 1


def test_response_does_not_wait_for_other_suspected_leaders(hosting: GroupNode) -> None:
    hosting.node.broker.node_clients.suspects.lost(2)
    [one] = hosting.answer(KEY, 4, coordinator_keys=["g"]).coordinators
    assert one.node_id == 1
    assert hosting.node.broker.node_clients.suspects.ids == {2}
