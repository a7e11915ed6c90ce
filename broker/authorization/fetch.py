"""Fetch: READ on each topic; CLUSTER_ACTION for replicas (CVE-2018-1288).

Behaviour
- A partition of a topic that the client may not read has TOPIC_AUTHORIZATION_FAILED, whether it exists or not. So has
  each partition for which a client without CLUSTER_ACTION claims to be a replica; it gets no session.
- When the entries change, the next fetch of a session reads the partitions that the client may no longer read, so that
  it gets the error.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from broker.handlers.fetch import FetchInProgress, error_row, handle, replica_of
from broker.replication.fetch_sessions import INITIAL_EPOCH, NO_SESSION
from controller.acls.acl import CLUSTER_NAME, AclOperation, AclResourceType
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from broker.authorization.guards import Handle
    from broker.authorization.request_authorizer import RequestAuthorizer
    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext
    from broker.replication.fetch_sessions import FetchPartition, FetchSession
    from broker.replication.partition import ReadResult
    from protocol.messages.fetch import FetchRequest

_READ, _TOPIC = AclOperation.READ, AclResourceType.TOPIC


def guard(
    authorizer: RequestAuthorizer, _handle: Handle, broker: BrokerServer, context: RequestContext, request: FetchRequest
) -> Any:
    """Read the authorized partitions."""
    if replica_of(context, request) < 0:
        return handle(broker, context, request, partial(AuthorizedFetch, authorizer))
    if authorizer.authorize(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME):
        return handle(broker, context, request)
    if request.session_epoch > INITIAL_EPOCH:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=NO_SESSION, responses=[])
    return FetchResponse(
        session_id=NO_SESSION,
        responses=[
            FetchResponse.Topic(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    error_row(wanted.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


class AuthorizedFetch(FetchInProgress):
    """A fetch of a client that may not read everything."""

    __slots__ = ("_authorizer", "_readable", "_refused")

    def __init__(
        self,
        authorizer: RequestAuthorizer,
        broker: BrokerServer,
        context: RequestContext,
        request: FetchRequest,
        session: FetchSession,
        replica_id: int,
    ) -> None:
        """Begin as `FetchInProgress`."""
        super().__init__(broker, context, request, session, replica_id)
        self._authorizer = authorizer
        self._readable = authorizer.decisions(context, _READ, _TOPIC)
        self._refused: set[str] = set()
        if session.authorized_by is not self._readable:
            session.authorized_by = self._readable
            for cached in session.partitions.values():
                if not self._may_read(cached):
                    session.read_again(cached)

    def read(self, wanted: FetchPartition, room: int, *, min_one: bool) -> ReadResult:
        """Return what is read from a partition; KafkaError also if the client may not read its topic."""
        if not self._may_read(wanted):
            self._log_refusal(wanted.topic or "")
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return super().read(wanted, room, min_one=min_one)

    def _may_read(self, wanted: FetchPartition) -> bool:
        """Return whether the client may read a partition, or it is of an unknown topic id."""
        if wanted.topic is None:
            wanted.topic = self._broker.replicas.topic_name(wanted.topic_id)
        return wanted.topic is None or self._readable[wanted.topic]

    def _log_refusal(self, topic: str) -> None:
        if topic not in self._refused:
            self._refused.add(topic)
            self._authorizer.authorize(self._context, _READ, _TOPIC, topic)
