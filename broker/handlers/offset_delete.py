"""OffsetDelete: delete a group's offsets of topics that it no longer reads (KIP-496).

Behaviour
- The response is sent once the tombstones are committed. GROUP_SUBSCRIBED_TO_TOPIC for a topic that a member
  subscribes to.
- NON_EMPTY_GROUP for a group whose members are not consumers; GROUP_ID_NOT_FOUND for an unknown one.
"""

from __future__ import annotations

from collections.abc import Awaitable

from broker.broker_server import BrokerServer
from broker.coordinator.runtime.shard_host import then
from broker.network.connection import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

_Result = OffsetDeleteResponse.Topic.Partition


def handle(
    broker: BrokerServer, _context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    """Delete the offsets of existing partitions."""
    existing: list[tuple[str, int]] = []
    accepted: list[_Result] = []
    response = OffsetDeleteResponse(topics=[])
    for requested in request.topics:
        topic = broker.image.topic(requested.name)
        answers = []
        for partition in requested.partitions:
            index = partition.partition_index
            answer = _Result(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            answers.append(answer)
            if topic is not None and index in topic.partitions:
                existing.append((requested.name, index))
                accepted.append(answer)
        response.topics.append(OffsetDeleteResponse.Topic(name=requested.name, partitions=answers))

    def respond(errors: list[ErrorCode]) -> OffsetDeleteResponse:
        for partition, error in zip(accepted, errors, strict=True):
            partition.error_code = error
        return response

    try:
        return then(broker.groups.delete_offsets(request.group_id, existing), respond)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code, topics=[])
