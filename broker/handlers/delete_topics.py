"""DeleteTopics: delete topics and their records.

Behaviour
- The controller decides each topic independently (`controller.commands.topics`); `delete.topic.enable=false` refuses
  all.
- When the response is sent, the topics are gone from the metadata and can be created again. Their files are deleted
  after `file.delete.delay.ms`.

Version notes
- TOPIC_DELETION_DISABLED is returned in 1 to 3 too. 5 and later have error messages.
- 6 and later can name topics by id (KIP-516).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.commands.topics import delete_topics
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node


async def handle(broker: Node, _context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Submit the command; return its response once its records are committed."""
    command = partial(delete_topics, request=request, settings=broker.settings)
    return await broker.controller.submit(command, request.timeout_ms)
