"""Internal topics are created on first use."""

from __future__ import annotations

import asyncio

import pytest

from broker.metadata.internal_topics import creatable_topic, ensure_internal_topic
from broker.metadata.topic_creation import submit_topics
from controller.image import MetadataImage
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.topics import create

OFFSETS = "__consumer_offsets"


def test_the_topic_of_groups_is_made_by_the_broker_s_settings(stopped_controller: ControllerNode) -> None:
    stopped_controller.start({"offsets.topic.num.partitions": "4", "offsets.topic.segment.bytes": "2000000"})
    topic = stopped_controller.wait(ensure_internal_topic(stopped_controller, OFFSETS))  # type: ignore[arg-type]  # stands in for Broker
    assert len(topic.partitions) == 4
    assert stopped_controller.image.configs(2, OFFSETS) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "2000000",
    }


def test_those_who_need_it_at_the_same_time_share_it(controlled: ControllerNode) -> None:
    async def all_at_once() -> list[object]:
        return await asyncio.gather(*(ensure_internal_topic(controlled, OFFSETS) for _ in range(3)))  # type: ignore[arg-type]  # stands in for Broker

    topics = controlled.wait(all_at_once())
    assert len({topic.topic_id for topic in topics}) == 1
    again = controlled.wait(ensure_internal_topic(controlled, OFFSETS))  # type: ignore[arg-type]  # stands in for Broker
    assert again is controlled.image.topic(OFFSETS)


def test_the_error_is_told_where_it_cannot_be_made(controlled: ControllerNode) -> None:
    create(controlled, "..consumer_offsets")
    with pytest.raises(KafkaError) as refused:
        controlled.wait(ensure_internal_topic(controlled, OFFSETS))  # type: ignore[arg-type]  # stands in for Broker
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(("alone", "replicas"), [(True, 1), (False, 3)])
def test_only_a_broker_that_is_its_own_only_voter_makes_do_with_one_replica(
    controlled: ControllerNode, alone: bool, replicas: int
) -> None:
    topic = creatable_topic(OFFSETS, controlled.settings, is_only_voter=alone)
    assert topic.replication_factor == replicas


class WithoutController:
    """A broker whose active controller is another node, `active`; records the requests sent to it."""

    leads = is_only_voter = False

    def __init__(self, active: ControllerNode) -> None:
        self.active = active
        self.controller = self.controller_channel = self
        self.settings = active.settings

    @property
    def image(self) -> MetadataImage:
        return self.active.image

    async def call(self, request: CreateTopicsRequest, timeout_s: float, *, for_client: bool) -> CreateTopicsResponse:
        assert for_client
        assert timeout_s == self.settings["request.timeout.ms"] / 1000
        return await submit_topics(self.active, request)  # type: ignore[arg-type]  # stands in for Broker


def test_a_broker_that_is_not_the_active_controller_asks_it(stopped_controller: ControllerNode) -> None:
    stopped_controller.start({"offsets.topic.replication.factor": "1"})
    broker = WithoutController(stopped_controller)
    topic = stopped_controller.wait(ensure_internal_topic(broker, OFFSETS))  # type: ignore[arg-type]  # stands in for Broker
    assert topic is stopped_controller.image.topic(OFFSETS)
