"""DeleteGroups: delete groups without members, and their offsets.

Behaviour
- Each group has its own result, once its tombstones are committed: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
- A group that is named twice has one result, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.runtime.shard_host import Outcome
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext


async def handle(broker: BrokerServer, _context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete each group independently."""
    # Write all tombstones before waiting for the first commit.
    deletions = [(group_id, _delete(broker, group_id)) for group_id in dict.fromkeys(request.groups_names)]
    results = []
    for group_id, deletion in deletions:
        try:
            error = deletion if isinstance(deletion, ErrorCode) else await deletion
        except KafkaError as failure:
            error = failure.code
        results.append(DeleteGroupsResponse.Result(group_id=group_id, error_code=error))
    return DeleteGroupsResponse(results=results)


def _delete(broker: BrokerServer, group_id: str) -> Outcome[ErrorCode]:
    try:
        return broker.groups.delete_group(group_id)
    except KafkaError as error:
        return error.code
