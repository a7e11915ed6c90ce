"""DeleteTopics: delete topics by name or id (KIP-4, KIP-516).

Behaviour
- The controller decides each topic independently (`controller.commands.topics`).
- The partitions of a deleted topic count against the client's quota of controller mutations
  (`controller_mutation_rate`, KIP-599). Above it, version 5 and later get THROTTLING_QUOTA_EXCEEDED for the topic,
  older ones a throttle time.
- REQUEST_TIMED_OUT if the records are not committed within the request's timeout; topics may be deleted later.

Version notes
- 5 and later have an error message, 6 and later topic ids.
"""

from functools import partial

from broker.controller_server import ControllerServer
from broker.network.connection import RequestContext
from controller.commands.topics import delete_topics
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse


async def handle(
    controller: ControllerServer, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Submit the command; return its response once its records are committed."""
    quota = controller.mutation_quota(context)
    command = partial(delete_topics, request=request, settings=controller.settings, record_mutations=quota.record)
    response = await controller.raft.submit(command, request.timeout_ms)
    response.throttle_time_ms = quota.throttle_ms
    return response
