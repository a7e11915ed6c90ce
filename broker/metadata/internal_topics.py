"""Internal topics: created when first needed, with their own settings (Kafka: `AutoTopicCreationManager`)."""

from collections.abc import Mapping

from broker.broker_server import BrokerServer
from broker.metadata.topic_creation import create_by_controller
from broker.network.connection import RequestContext
from controller.configs.effective import StaticSettings
from controller.image import MetadataImage, TopicImage
from controller.topic_names import CONSUMER_OFFSETS, INTERNAL_TOPICS, TRANSACTION_STATE
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse


def is_creatable(name: str) -> bool:
    """Return whether a topic can be created automatically; internal topics that this broker does not use cannot."""
    return name in (CONSUMER_OFFSETS, TRANSACTION_STATE) or name not in INTERNAL_TOPICS


def creation_request(name: str, settings: StaticSettings, *, is_only_voter: bool) -> CreateTopicsRequest.Topic:
    """Return the creation request for the topic `name`: defaults, or an internal topic's own settings.

    On a broker that is the only voter of its quorum, internal topics have one replica. The number of registered brokers
    must not decide: in a cluster whose other brokers have yet to register, one replica would be permanent.
    """
    if name == TRANSACTION_STATE:
        return _internal_topic(
            name,
            partitions=settings["transaction.state.log.num.partitions"],
            copies=1 if is_only_voter else settings["transaction.state.log.replication.factor"],
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(1 if is_only_voter else settings["transaction.state.log.min.isr"]),
                "segment.bytes": str(settings["transaction.state.log.segment.bytes"]),
                "unclean.leader.election.enable": "false",
            },
        )
    if name != CONSUMER_OFFSETS:
        return CreateTopicsRequest.Topic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=[], configs=[]
        )
    return _internal_topic(
        name,
        partitions=settings["offsets.topic.num.partitions"],
        copies=1 if is_only_voter else settings["offsets.topic.replication.factor"],
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings["offsets.topic.segment.bytes"]),
        },
    )


def _internal_topic(
    name: str, *, partitions: int, copies: int, configs: Mapping[str, str]
) -> CreateTopicsRequest.Topic:
    return CreateTopicsRequest.Topic(
        name=name,
        num_partitions=partitions,
        replication_factor=copies,
        assignments=[],
        configs=[CreateTopicsRequest.Topic.Config(name=key, value=value) for key, value in configs.items()],
    )


async def create_on_demand(
    broker: BrokerServer, names: list[str], context: RequestContext | None = None
) -> CreateTopicsResponse:
    """Create topics through the active controller: for the client of a request, or for the broker itself.

    A topic that exists by now has TOPIC_ALREADY_EXISTS in the response; KafkaError if no controller responds.
    """
    is_only_voter = broker.raft.is_only_voter
    topics = [creation_request(name, broker.settings, is_only_voter=is_only_voter) for name in names]
    request = CreateTopicsRequest(topics=topics)
    if context is None:
        return await create_by_controller(broker, request)
    created: CreateTopicsResponse = await broker.request_for_client(context, request)
    return created


async def ensure_internal_topic(broker: BrokerServer, name: str) -> TopicImage:
    """Return an internal topic, created if it does not exist. KafkaError if it cannot be created."""
    topic = broker.image.topic(name)
    if topic is None:
        [response] = (await create_on_demand(broker, [name])).topics
        if response.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise KafkaError(ErrorCode(response.error_code), response.error_message or "")
        topic = _created(broker.image, name)
    return topic


def _created(image: MetadataImage, name: str) -> TopicImage:
    topic = image.topic(name)
    if topic is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{name} does not exist yet, or was deleted")
    return topic
