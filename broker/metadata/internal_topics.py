"""The brokers' own topics: created when they are first needed, with settings of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.metadata.topic_creation import create_anywhere
from controller.configs.effective import StaticSettings
from controller.image import MetadataImage, TopicImage
from controller.topic_names import CONSUMER_OFFSETS, INTERNAL_TOPICS
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from broker.broker import Broker


def is_creatable(name: str) -> bool:
    """Say whether a topic can be created when nobody says how: not so internal ones that have no use yet."""
    return name == CONSUMER_OFFSETS or name not in INTERNAL_TOPICS


def creatable_topic(name: str, settings: StaticSettings, *, is_only_voter: bool) -> CreateTopicsRequest.Topic:
    """Return how the topic `name` is created when nobody says how: an internal one by its own settings.

    On a broker that is its own only voter internal topics have one replica. It is not a broker of a cluster whose
    others have yet to register, where this would be one replica for good.
    """
    if name != CONSUMER_OFFSETS:
        return CreateTopicsRequest.Topic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=[], configs=[]
        )
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(settings["offsets.topic.segment.bytes"]),
    }
    return CreateTopicsRequest.Topic(
        name=name,
        num_partitions=settings["offsets.topic.num.partitions"],
        replication_factor=1 if is_only_voter else settings["offsets.topic.replication.factor"],
        assignments=[],
        configs=[CreateTopicsRequest.Topic.Config(name=key, value=value) for key, value in configs.items()],
    )


async def create_on_demand(broker: Broker, names: list[str]) -> CreateTopicsResponse:
    """Create topics that somebody asked for by name, wherever the active controller is.

    One that exists by now counts as an error of its own; KafkaError if no controller answers.
    """
    alone = broker.controller.is_only_voter
    topics = [creatable_topic(name, broker.settings, is_only_voter=alone) for name in names]
    return await create_anywhere(broker, CreateTopicsRequest(topics=topics))


async def ensure_internal_topic(broker: Broker, name: str) -> TopicImage:
    """Return one of the brokers' own topics, created if it is not there yet; KafkaError if it cannot be."""
    topic = broker.image.topic(name)
    if topic is None:
        [answer] = (await create_on_demand(broker, [name])).topics
        if answer.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise KafkaError(ErrorCode(answer.error_code), answer.error_message or "")
        topic = _created(broker.image, name)
    return topic


def _created(image: MetadataImage, name: str) -> TopicImage:
    topic = image.topic(name)
    if topic is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{name} is not there yet, or was deleted again at once")
    return topic
