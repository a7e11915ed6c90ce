"""CreateTopics: topics with their partitions, replicas and settings (KIP-4).

Behaviour
- The controller decides each topic on its own (`controller.commands.topics`).
- Beyond Kafka, the answer comes when every partition can be produced to: the leaders are elected, and every active
  broker has made its replicas, or else three quarters of the request's time are over, or of `request.timeout.ms` if
  that is shorter.
- KAFKA_STORAGE_ERROR, and nothing is created, where the disk has no space for logs.
- REQUEST_TIMED_OUT if the topics are not committed by then; they may exist later.

Version notes
- 4 and later take -1 for the broker's defaults of partitions and replicas (KIP-464).
- 5 and later return the settings that the topic begins with (KIP-525), 7 and later its id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.metadata.topic_creation import submit_topics
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import RequestContext


async def handle(broker: Broker, _context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Submit the command and answer when it holds."""
    return await submit_topics(broker, request, request.timeout_ms)
