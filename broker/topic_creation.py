"""Topics are created by whoever asks for them only where there is space for their logs.

A topic whose logs cannot be made would be there and serve nobody, so a full disk refuses it with KAFKA_STORAGE_ERROR
before the controller hears of it. What makes up a topic is decided in `controller.commands.topics`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.commands.topics import create_topics
from protocol.errors import KafkaError
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from broker.broker import Broker


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
    return await broker.controller.submit(command, timeout_ms)
