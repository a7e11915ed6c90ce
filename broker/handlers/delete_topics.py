"""DeleteTopics: topics and everything in them.

Behaviour
- The controller decides each topic on its own (`controller.commands.topics`); `delete.topic.enable=false` forbids all.
- When the answer comes, the topics are gone from metadata and can be created again; their files go later, after
  `file.delete.delay.ms`.

Version notes
- 1 to 3 answer TOPIC_DELETION_DISABLED as any other error. 5 and later have texts of errors.
- 6 and later can name topics by id (KIP-516).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.commands.topics import delete_topics
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import RequestContext


async def handle(broker: Broker, _context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Submit the command and answer when it holds."""
    command = partial(delete_topics, request=request, settings=broker.settings)
    return await broker.controller.submit(command, request.timeout_ms)
