"""FindCoordinator: the broker that coordinates a group or a transactional id.

Behaviour
- The coordinator is the leader of the key's partition of `__consumer_offsets` or `__transaction_state`, with its
  address on the request's listener. If the topic does not exist, it is created and the response waits for it; in Kafka
  the client retries.
- If that leader is suspected, because its connection to this broker just broke, the response waits until the suspicion
  is resolved (`broker.metadata.suspected_leaders`), as in Metadata.
- COORDINATOR_NOT_AVAILABLE while the partition has no reachable leader.
- Share groups are not supported: INVALID_REQUEST.

Version notes
- 1 and later have an error message, and a key type: 0 group, 1 transaction, 2 share.
- 4 and later take several keys, each with its own result (KIP-699).
- 6 and later have share groups (KIP-932).
"""

import asyncio
from collections.abc import Awaitable, Set
from typing import NamedTuple

from broker.broker_server import BrokerServer
from broker.metadata.internal_topics import ensure_internal_topic
from broker.metadata.metadata_view import current_leader
from broker.network.connection import RequestContext
from controller.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_TOPICS = {_GROUP: CONSUMER_OFFSETS, _TRANSACTION: TRANSACTION_STATE}
_REFUSALS = {_SHARE: "This broker does not support share groups"}
_SEVERAL_FROM_VERSION = 4
_CHARACTERS_A_STEP = 32_768


class _Found(NamedTuple):
    error: ErrorCode
    message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1


def handle(
    broker: BrokerServer, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Find the coordinator of each key; wait only to create the topic or while a leader is suspected."""
    topic = _TOPICS.get(request.key_type)
    if topic is None:
        refusal = _REFUSALS.get(request.key_type, f"There are no coordinators of type {request.key_type}")
        refused = _Found(ErrorCode.INVALID_REQUEST, refusal)
        return _response(context, request, [refused] * len(_keys(context, request)))
    if broker.image.topic(topic) is None:
        return _create_and_find(broker, context, request, topic)
    if sum(map(len, _keys(context, request))) > _CHARACTERS_A_STEP:
        return _find_in_steps(broker, context, request, topic)
    suspects = broker.node_clients.suspects.ids
    if suspects and (lost := suspects & _leaders(broker, context, request, topic)):
        return _find_once_settled(broker, context, request, topic, lost)
    return _find_all(broker, context, request, topic)


async def _find_in_steps(
    broker: BrokerServer, context: RequestContext, request: FindCoordinatorRequest, topic: str
) -> FindCoordinatorResponse:
    """Find the coordinators of many or long keys: their hashes would take too long for one turn of the loop."""
    found: list[_Found] = []
    characters = 0
    for key in _keys(context, request):
        found.append(_find(broker, topic, key, context.listener))
        characters += len(key)
        if characters > _CHARACTERS_A_STEP:
            characters = 0
            await asyncio.sleep(0)
    return _response(context, request, found)


def _partition_of(broker: BrokerServer, topic: str, key: str) -> int:
    runtime = broker.groups.runtime if topic == CONSUMER_OFFSETS else broker.transactions.runtime
    return runtime.partition_of(key)


def _leaders(broker: BrokerServer, context: RequestContext, request: FindCoordinatorRequest, topic: str) -> set[int]:
    indexes = (_partition_of(broker, topic, key) for key in _keys(context, request))
    return {current_leader(broker.image, topic, index, context.listener).leader for index in indexes}


async def _find_once_settled(
    broker: BrokerServer, context: RequestContext, request: FindCoordinatorRequest, topic: str, suspects: Set[int]
) -> FindCoordinatorResponse:
    await broker.node_clients.suspects.until_resolved(suspects)
    return _find_all(broker, context, request, topic)


async def _create_and_find(
    broker: BrokerServer, context: RequestContext, request: FindCoordinatorRequest, topic: str
) -> FindCoordinatorResponse:
    try:
        await ensure_internal_topic(broker, topic)
    except KafkaError as error:
        failed = _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
        return _response(context, request, [failed] * len(_keys(context, request)))
    return await _find_in_steps(broker, context, request, topic)


def _find_all(
    broker: BrokerServer, context: RequestContext, request: FindCoordinatorRequest, topic: str
) -> FindCoordinatorResponse:
    keys = _keys(context, request)
    return _response(context, request, [_find(broker, topic, key, context.listener) for key in keys])


def _find(broker: BrokerServer, topic: str, key: str, listener: str) -> _Found:
    index = _partition_of(broker, topic, key)
    leader = current_leader(broker.image, topic, index, listener)
    if leader.host is None or broker.image.brokers[leader.leader].fenced:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Partition {topic}-{index} has no leader")
    return _Found(ErrorCode.NONE, None, leader.leader, leader.host, leader.port)


def _keys(context: RequestContext, request: FindCoordinatorRequest) -> list[str]:
    return request.coordinator_keys if context.api_version >= _SEVERAL_FROM_VERSION else [request.key]


def _response(context: RequestContext, request: FindCoordinatorRequest, found: list[_Found]) -> FindCoordinatorResponse:
    if context.api_version < _SEVERAL_FROM_VERSION:
        [one] = found
        return FindCoordinatorResponse(
            error_code=one.error, error_message=one.message, node_id=one.node_id, host=one.host, port=one.port
        )
    return FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponse.Coordinator(
                key=key,
                node_id=one.node_id,
                host=one.host,
                port=one.port,
                error_code=one.error,
                error_message=one.message,
            )
            for key, one in zip(_keys(context, request), found, strict=True)
        ]
    )
