"""Transactions: InitProducerId, AddPartitionsToTxn, DescribeTransactions and ListTransactions.

Behaviour
- InitProducerId needs WRITE on the transactional id, and TWO_PHASE_COMMIT for two-phase commit (KIP-939). Without an id
  it needs IDEMPOTENT_WRITE on the cluster, or WRITE on any topic (KIP-679).
- AddPartitionsToTxn needs WRITE on the transactional id and on each topic, which no client has on internal ones: if one
  is refused, no partition is added. From version 4 on, brokers send it: CLUSTER_ACTION.
- DescribeTransactions and ListTransactions return the ids that the client may describe; DescribeTransactions omits the
  topics that it may not describe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.authorization.guards import Handle, guard_each
from broker.authorization.outcomes import complete
from broker.authorization.request_authorizer import RequestAuthorizer
from broker.authorization.requirement import Requirement
from broker.handlers.add_partitions_to_txn import BATCHED_FROM_VERSION, partition_error
from controller.acls.acl import AclOperation, AclResourceType
from controller.topic_names import INTERNAL_TOPICS
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext
    from protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
    from protocol.messages.init_producer_id import InitProducerIdRequest
    from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

_DESCRIBE, _WRITE = AclOperation.DESCRIBE, AclOperation.WRITE
_TOPIC, _ID = AclResourceType.TOPIC, AclResourceType.TRANSACTIONAL_ID

_Topic = AddPartitionsToTxnResponse.Topic


def guard_producer_id(
    authorizer: RequestAuthorizer,
    handle: Handle,
    broker: BrokerServer,
    context: RequestContext,
    request: InitProducerIdRequest,
) -> Any:
    """Allocate a producer id."""
    name = request.transactional_id
    if name is None:
        if not (
            authorizer.may_on_cluster(context, AclOperation.IDEMPOTENT_WRITE)
            or authorizer.may_on_any(context, _WRITE, _TOPIC)
        ):
            authorizer.require(context, AclOperation.IDEMPOTENT_WRITE)
    else:
        authorizer.require(context, _WRITE, _ID, name)
        if request.enable_2pc:
            authorizer.require(context, AclOperation.TWO_PHASE_COMMIT, _ID, name)
    return handle(broker, context, request)


def guard_partitions(
    authorizer: RequestAuthorizer,
    handle: Handle,
    broker: BrokerServer,
    context: RequestContext,
    request: AddPartitionsToTxnRequest,
) -> Any:
    """Add the partitions, or none."""
    if context.api_version >= BATCHED_FROM_VERSION:
        authorizer.require(context, AclOperation.CLUSTER_ACTION)
        return handle(broker, context, request)
    authorizer.require(context, _WRITE, _ID, request.v3_and_below_transactional_id)
    topics = request.v3_and_below_topics
    refused = authorizer.unauthorized(
        context, _WRITE, _TOPIC, (topic.name for topic in topics if topic.name not in INTERNAL_TOPICS)
    )
    if not refused:
        return handle(broker, context, request)

    def error(topic: str, index: int) -> ErrorCode:
        if topic in refused:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        found = partition_error(authorizer.image, topic, index, context.api_version)
        return found or ErrorCode.OPERATION_NOT_ATTEMPTED

    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            _Topic(
                name=topic.name,
                results_by_partition=[
                    _Topic.Partition(partition_index=index, partition_error_code=error(topic.name, index))
                    for index in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def guard_description(
    authorizer: RequestAuthorizer,
    handle: Handle,
    broker: BrokerServer,
    context: RequestContext,
    request: DescribeTransactionsRequest,
) -> Any:
    """Describe the transactional ids, and of their topics those that the client may describe."""

    def finish(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        decisions = authorizer.decisions(context, _DESCRIBE, _TOPIC)
        for one in response.transaction_states:
            one.topics = [topic for topic in one.topics if decisions[topic.topic]]
        return response

    requirement = Requirement(_DESCRIBE, _ID, "transactional_ids")
    return complete(guard_each(authorizer, handle, requirement, broker, context, request), finish)


def guard_list(
    authorizer: RequestAuthorizer,
    handle: Handle,
    broker: BrokerServer,
    context: RequestContext,
    request: ListTransactionsRequest,
) -> Any:
    """Return the transactional ids that the client may describe."""

    def finish(response: ListTransactionsResponse) -> ListTransactionsResponse:
        decisions = authorizer.decisions(context, _DESCRIBE, _ID)
        response.transaction_states = [one for one in response.transaction_states if decisions[one.transactional_id]]
        return response

    return complete(handle(broker, context, request), finish)
