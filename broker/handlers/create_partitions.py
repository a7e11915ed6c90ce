"""CreatePartitions: add partitions to existing topics (KIP-195).

Behaviour
- The controller decides each topic independently (`controller.commands.partitions`).
- KAFKA_STORAGE_ERROR if the disk has no space for logs, as for new topics.
- The response is sent when every broker can serve the partitions, as for new topics.

Version notes
- All versions have the same fields; 2 and later are flexible. 3 may return THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.metadata.topic_creation import patience_ms, until_served
from controller.commands.partitions import create_partitions
from protocol.errors import KafkaError
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node


async def handle(broker: Node, _context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Submit the command; return its response once the brokers serve the partitions."""
    try:
        broker.logs.check_room()
    except KafkaError as full:
        names = dict.fromkeys(topic.name for topic in request.topics)
        results = [
            CreatePartitionsResponse.Result(name=name, error_code=full.code, error_message=full.message)
            for name in names
        ]
        return CreatePartitionsResponse(results=results)
    command = partial(create_partitions, request=request, random=broker.random)
    begun_s = broker.loop.time()
    response = await broker.controller.submit(command, patience_ms(broker, request.timeout_ms))
    if not request.validate_only and any(not result.error_code for result in response.results):
        await until_served(broker, begun_s, request.timeout_ms)
    return response
