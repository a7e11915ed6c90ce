"""FindCoordinator: the broker that coordinates a group.

Behaviour
- The coordinator is the leader of the group's partition of `__consumer_offsets`, with its address on the request's
  listener. If the topic does not exist, it is created and the response waits for it; in Kafka the client retries.
- If that leader is suspected, because its connection to this broker just broke, the response waits until the suspicion
  is resolved (`broker.metadata.suspected_leaders`), as in Metadata.
- COORDINATOR_NOT_AVAILABLE while the partition has no reachable leader.
- Transactions are not supported: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which is fatal in every client; librdkafka
  retries other errors, INVALID_REQUEST too, until its timeout. Some clients do not show the error message, so a
  warning is logged once per transactional id.
- Share groups are not supported: INVALID_REQUEST.

Version notes
- 1 and later have an error message, and a key type: 0 group, 1 transaction, 2 share.
- 4 and later take several keys, each with its own result (KIP-699).
- 6 and later have share groups (KIP-932).
"""

import logging
from collections.abc import Awaitable, Set
from typing import NamedTuple

from broker.broker_server import BrokerServer
from broker.metadata.internal_topics import ensure_internal_topic
from broker.metadata.metadata_view import current_leader
from broker.network.connection import RequestContext
from controller.topic_names import CONSUMER_OFFSETS
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

_log = logging.getLogger("broker.transactions")

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_REFUSALS = {
    _TRANSACTION: "This broker does not support transactions",
    _SHARE: "This broker does not support share groups",
}
_SEVERAL_FROM_VERSION = 4


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
    if request.key_type != _GROUP:
        refusal = _REFUSALS.get(request.key_type, f"There are no coordinators of type {request.key_type}")
        code = ErrorCode.INVALID_REQUEST
        if request.key_type == _TRANSACTION:
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            _warn(broker, context, request)
        refused = _Found(code, refusal)
        return _response(context, request, [refused] * len(_keys(context, request)))
    if broker.image.topic(CONSUMER_OFFSETS) is None:
        return _create_and_find(broker, context, request)
    suspects = broker.node_clients.suspects.ids
    if suspects and (lost := suspects & _leaders(broker, context, request)):
        return _find_once_settled(broker, context, request, lost)
    return _find_all(broker, context, request)


def _leaders(broker: BrokerServer, context: RequestContext, request: FindCoordinatorRequest) -> set[int]:
    indexes = map(broker.groups.runtime.partition_of, _keys(context, request))
    return {current_leader(broker.image, CONSUMER_OFFSETS, index, context.listener).leader for index in indexes}


async def _find_once_settled(
    broker: BrokerServer, context: RequestContext, request: FindCoordinatorRequest, suspects: Set[int]
) -> FindCoordinatorResponse:
    await broker.node_clients.suspects.until_resolved(suspects)
    return _find_all(broker, context, request)


def _warn(broker: BrokerServer, context: RequestContext, request: FindCoordinatorRequest) -> None:
    for transactional_id in filter(broker.refused_transactions.should_log, _keys(context, request)):
        _log.warning(
            "Refusing the transactional producer %.200r of %s: transactions are not supported yet",
            transactional_id,
            context.client_host,
        )


async def _create_and_find(
    broker: BrokerServer, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    try:
        await ensure_internal_topic(broker, CONSUMER_OFFSETS)
    except KafkaError as error:
        failed = _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
        return _response(context, request, [failed] * len(_keys(context, request)))
    return _find_all(broker, context, request)


def _find_all(
    broker: BrokerServer, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    keys = _keys(context, request)
    return _response(context, request, [_find(broker, key, context.listener) for key in keys])


def _find(broker: BrokerServer, group_id: str, listener: str) -> _Found:
    index = broker.groups.runtime.partition_of(group_id)
    leader = current_leader(broker.image, CONSUMER_OFFSETS, index, listener)
    if leader.host is None or broker.image.brokers[leader.leader].fenced:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Partition {CONSUMER_OFFSETS}-{index} has no leader")
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
