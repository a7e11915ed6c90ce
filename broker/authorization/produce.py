"""Produce: WRITE on each topic, and on the transactional id if a batch is transactional.

With acks=0 a refused topic closes the connection, as any other error does; the other topics' batches are appended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from broker.authorization.guards import Handle, guard_each
from broker.authorization.outcomes import complete
from broker.authorization.request_authorizer import RequestAuthorizer
from broker.authorization.requirement import Requirement
from broker.network.connection import Connection, Disconnect, RequestContext
from controller.acls.acl import AclOperation, AclResourceType
from protocol.record_batch import HEADER_BYTES, read_header

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from protocol.messages.produce import ProduceRequest, ProduceResponse

_WRITE = AclOperation.WRITE
_TOPICS = Requirement(_WRITE, AclResourceType.TOPIC, "topic_data.name")


def guard(
    authorizer: RequestAuthorizer,
    handle: Handle,
    broker: BrokerServer,
    context: RequestContext,
    request: ProduceRequest,
) -> Any:
    """Append the batches of the authorized topics."""
    if request.transactional_id is not None and _is_transactional(request):
        authorizer.require(context, _WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
    if request.acks == 0:
        return _guard_unanswered(authorizer, handle, broker, context, request)
    return guard_each(authorizer, handle, _TOPICS, broker, context, request)


def _guard_unanswered(
    authorizer: RequestAuthorizer,
    handle: Handle,
    broker: BrokerServer,
    context: RequestContext,
    request: ProduceRequest,
) -> Any:
    names = [authorizer.topic_name(topic) for topic in request.topic_data]
    refused = authorizer.unauthorized(
        context, _WRITE, AclResourceType.TOPIC, (name for name in names if name is not None)
    )
    if not refused:
        return handle(broker, context, request)

    def disconnect(_response: ProduceResponse | None) -> None:
        raise Disconnect("a produce with acks=0 failed: TOPIC_AUTHORIZATION_FAILED")

    kept = [topic for name, topic in zip(names, request.topic_data, strict=True) if name not in refused]
    request.topic_data = kept
    return complete(handle(broker, context, request), disconnect)


def _is_transactional(request: ProduceRequest) -> bool:
    batches = (
        cast("memoryview | None", wanted.records) for topic in request.topic_data for wanted in topic.partition_data
    )
    return any(
        records is not None and len(records) >= HEADER_BYTES and read_header(records).is_transactional
        for records in batches
    )


class FastPathCheck:
    """Whether a request may take the fast path: a refused one is decoded, and refused by the guard."""

    def __init__(self, authorizer: RequestAuthorizer) -> None:
        self._authorizer = authorizer

    def __call__(self, connection: Connection, name: str | None, topic_id: bytes, transactional_id: str | None) -> bool:
        """Return whether the client may write to the topic, given by name or by id, in the transaction if any."""
        authorizer = self._authorizer
        if authorizer.is_super_user(connection):
            return True
        if name is None:
            topic = authorizer.image.topic_by_id(topic_id)
            if topic is None:
                return True
            name = topic.name
        if not authorizer.decisions(connection, _WRITE, AclResourceType.TOPIC)[name]:
            return False
        return transactional_id is None or authorizer.may(
            connection, _WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id
        )
