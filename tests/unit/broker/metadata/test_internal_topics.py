"""Internal topics are created on first use."""

from __future__ import annotations

import asyncio

import pytest

from broker.metadata.internal_topics import creation_request, ensure_internal_topic
from broker.metadata.topic_creation import submit_topics
from controller.image import MetadataImage
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tests.typed import present
from tests.unit.broker.conftest import NewController
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.topics import create

OFFSETS = "__consumer_offsets"


def test_consumer_offsets_topic_is_created_from_broker_settings(new_controller: NewController) -> None:
    controlled = new_controller(offsets_topic_num_partitions="4", offsets_topic_segment_bytes="2000000")
    topic = controlled.wait(ensure_internal_topic(controlled.broker, OFFSETS))
    assert len(topic.partitions) == 4
    assert controlled.image.configs(2, OFFSETS) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "2000000",
    }


def test_concurrent_users_share_one_topic_creation(controlled: ControllerNode) -> None:
    async def all_at_once() -> list[object]:
        return await asyncio.gather(*(ensure_internal_topic(controlled.broker, OFFSETS) for _ in range(3)))

    topics = controlled.wait(all_at_once())
    assert len({topic.topic_id for topic in topics}) == 1
    again = controlled.wait(ensure_internal_topic(controlled.broker, OFFSETS))
    assert again is controlled.image.topic(OFFSETS)


def test_topic_creation_error_is_returned(controlled: ControllerNode) -> None:
    create(controlled, "..consumer_offsets")
    with pytest.raises(KafkaError) as refused:
        controlled.wait(ensure_internal_topic(controlled.broker, OFFSETS))
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(("alone", "replicas"), [(True, 1), (False, 3)])
def test_replication_factor_falls_back_to_1_only_on_single_voter_broker(
    controlled: ControllerNode, alone: bool, replicas: int
) -> None:
    topic = creation_request(OFFSETS, controlled.settings, is_only_voter=alone)
    assert topic.replication_factor == replicas


class RemoteController:
    """A broker whose active controller is another node, `active`; records the requests sent to it."""

    leads = is_only_voter = False

    def __init__(self, active: ControllerNode) -> None:
        self.active = active
        self.raft = self.controller_channel = self
        self.settings = active.settings

    @property
    def image(self) -> MetadataImage:
        return self.active.image

    async def call(self, request: CreateTopicsRequest, timeout_s: float, *, for_client: bool) -> CreateTopicsResponse:
        assert for_client
        assert timeout_s == self.settings["request.timeout.ms"] / 1000
        return await submit_topics(present(self.active.broker.controller), request)


def test_broker_sends_creation_to_active_controller(new_controller: NewController) -> None:
    controlled = new_controller(offsets_topic_replication_factor="1")
    broker = RemoteController(controlled)
    topic = controlled.wait(ensure_internal_topic(broker, OFFSETS))  # type: ignore[arg-type]  # stands in for Broker
    assert topic is controlled.image.topic(OFFSETS)
