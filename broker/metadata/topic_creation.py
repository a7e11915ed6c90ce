"""Topics are created by whoever asks for them only where there is space for their logs.

A topic whose logs cannot be made would be there and serve nobody, so a full disk refuses it with KAFKA_STORAGE_ERROR
before the controller hears of it. Beyond Kafka, whoever creates is answered when every broker can serve what was made.
What makes up a topic is decided in `controller.commands.topics`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.commands.topics import create_topics
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from broker.broker import Broker

_PATIENCE = 0.75
"""The part of a request's time that passes before it is answered without waiting for all brokers."""


async def submit_topics(
    broker: Broker, request: CreateTopicsRequest, timeout_ms: int | None = None
) -> CreateTopicsResponse:
    """Create the topics of `request`; errors of single topics are in the response, others as `RaftDriver.submit`."""
    try:
        broker.logs.check_room()
    except KafkaError as full:
        names = dict.fromkeys(topic.name for topic in request.topics)
        return CreateTopicsResponse(
            topics=[
                CreateTopicsResponse.Topic(name=name, error_code=full.code, error_message=full.message)
                for name in names
            ]
        )
    command = partial(create_topics, request=request, settings=broker.settings, random=broker.random)
    begun_s = broker.loop.time()
    response = await broker.controller.submit(command, patience_ms(broker, timeout_ms))
    if not request.validate_only and any(not topic.error_code for topic in response.topics):
        await until_served(broker, begun_s, timeout_ms)
    return response


def patience_ms(broker: Broker, timeout_ms: int | None) -> int:
    """Return how long who waits for so long, or as long as brokers do, can be let wait for brokers to make replicas."""
    limit_ms: int = broker.settings["request.timeout.ms"]
    return int(_PATIENCE * min(limit_ms, limit_ms if timeout_ms is None else timeout_ms))


async def until_served(broker: Broker, begun_s: float, timeout_ms: int | None) -> None:
    """Wait until all active brokers know what was decided here, for most of the time that the request has, from then.

    They say so at once (`broker.cluster.prompt_heartbeats`). Who is paused, cut off or busy is waited for until it is
    fenced, but not until the time is over: what was made is there by then, and nobody would read a later answer.
    """
    ends_s = begun_s + patience_ms(broker, timeout_ms) / 1000
    await broker.duties.until_known(broker.image.offset, ends_s - broker.loop.time())


async def create_anywhere(broker: Broker, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create topics that are needed, wherever the active controller is; KafkaError if none answers."""
    timeout_s = broker.settings["request.timeout.ms"] / 1000
    created: CreateTopicsResponse = await broker.to_controller.call(request, timeout_s, for_client=True)
    return created


async def create_if_missing(broker: Broker, name: str, partitions: int | None) -> None:
    """Create a topic unless it exists, with so many partitions or the default; KafkaError if that cannot be."""
    topic = CreateTopicsRequest.Topic(
        name=name, num_partitions=partitions or -1, replication_factor=-1, assignments=[], configs=[]
    )
    [answer] = (await create_anywhere(broker, CreateTopicsRequest(topics=[topic]))).topics
    if answer.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise KafkaError(ErrorCode(answer.error_code), answer.error_message or "")
