"""CreateTopics: create topics with their partitions, replicas and settings (KIP-4).

Behaviour
- The controller decides each topic independently (`controller.commands.topics`).
- Beyond Kafka, the response is sent when every partition accepts records: leaders are elected and every active broker
  has created its replicas. It waits at most 75 % of min(request timeout, `request.timeout.ms`).
- KAFKA_STORAGE_ERROR, and nothing is created, if the disk has no space for logs.
- REQUEST_TIMED_OUT if the topics are not committed by then; they may exist later.

Version notes
- 4 and later take -1 for the default number of partitions and replicas (KIP-464).
- 5 and later return the topic's settings (KIP-525), 7 and later its id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.metadata.topic_creation import submit_topics
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node


async def handle(broker: Node, _context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Submit the command; return its response once the brokers serve the topics."""
    return await submit_topics(broker, request, request.timeout_ms)
