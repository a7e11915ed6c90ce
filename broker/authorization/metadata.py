"""Metadata and DescribeTopicPartitions: DESCRIBE on each topic.

Behaviour
- A response with all topics has those that the client may describe. Of others it does not show that they exist: a
  topic requested by name gets TOPIC_AUTHORIZATION_FAILED without its id, whether it exists or not; one requested by id
  gets it without its name.
- A topic that would be created needs CREATE, on the cluster or on the topic: TOPIC_AUTHORIZATION_FAILED.
- Authorized operations are those of the client (KIP-430).
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.authorization.outcomes import complete
from controller.acls.acl import AclOperation, AclResourceType
from controller.topic_names import INTERNAL_TOPICS
from protocol.errors import ErrorCode
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.primitives import ZERO_UUID

if TYPE_CHECKING:
    from broker.authorization.guards import Handle
    from broker.authorization.request_authorizer import RequestAuthorizer
    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext

_DESCRIBE, _CREATE = AclOperation.DESCRIBE, AclOperation.CREATE
_TOPIC = AclResourceType.TOPIC
_EMPTY_IS_NONE_FROM_VERSION = 1

_Row = MetadataResponse.Topic


def guard(
    authorizer: RequestAuthorizer,
    handle: Handle,
    broker: BrokerServer,
    context: RequestContext,
    request: MetadataRequest,
) -> Any:
    """Return the metadata of the topics that the client may describe, and errors for the others that it names."""
    wanted = copy(request)
    wanted.include_topic_authorized_operations = wanted.include_cluster_authorized_operations = False
    finish = partial(_finish, authorizer, context, request)
    if request.topics is None or (context.api_version < _EMPTY_IS_NONE_FROM_VERSION and not request.topics):
        return complete(handle(broker, context, wanted), partial(finish, [], is_all=True))
    names = [authorizer.topic_name(topic) for topic in request.topics]
    refused = authorizer.unauthorized(context, _DESCRIBE, _TOPIC, (name for name in names if name is not None))
    uncreatable = _uncreatable(authorizer, broker, context, request, refused)
    wanted.topics, rows = [], []
    for name, topic in zip(names, request.topics, strict=True):
        if name in refused:
            rows.append(_refused(topic))
        elif name in uncreatable:
            rows.append(_refused(topic, is_internal=name in INTERNAL_TOPICS))
        else:
            wanted.topics.append(topic)
    # Version 0 has no request for no topics: an empty list means all.
    version = max(context.api_version, 0 if wanted.topics else _EMPTY_IS_NONE_FROM_VERSION)
    return complete(handle(broker, context._replace(api_version=version), wanted), partial(finish, rows, is_all=False))


def _uncreatable(
    authorizer: RequestAuthorizer,
    broker: BrokerServer,
    context: RequestContext,
    request: MetadataRequest,
    refused: Iterable[str],
) -> set[str]:
    """Return the requested topics that would be created if the client had the permission."""
    if not (request.allow_auto_topic_creation and broker.settings["auto.create.topics.enable"]):
        return set()
    image = authorizer.image
    missing = {
        topic.name
        for topic in request.topics or ()
        if topic.topic_id == ZERO_UUID and topic.name is not None and image.topic(topic.name) is None
    }.difference(refused)
    if not missing or authorizer.may_on_cluster(context, _CREATE):
        return set()
    return authorizer.unauthorized(context, _CREATE, _TOPIC, missing)


def _refused(topic: MetadataRequest.Topic, *, is_internal: bool = False) -> _Row:
    by_name = topic.topic_id == ZERO_UUID
    return _Row(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name=topic.name if by_name else None,
        topic_id=topic.topic_id,
        is_internal=is_internal,
        partitions=[],
    )


def _finish(
    authorizer: RequestAuthorizer,
    context: RequestContext,
    request: MetadataRequest,
    rows: list[_Row],
    response: MetadataResponse,
    *,
    is_all: bool,
) -> MetadataResponse:
    topics = response.topics
    if is_all:
        describable = authorizer.decisions(context, _DESCRIBE, _TOPIC)
        topics = [topic for topic in topics if describable[topic.name or ""]]
    if request.include_topic_authorized_operations:
        topics = [_with_operations(authorizer, context, topic) for topic in topics]
    response.topics = [*topics, *rows]
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorizer.cluster_operations(context)
    return response


def _with_operations(authorizer: RequestAuthorizer, context: RequestContext, topic: _Row) -> _Row:
    """Return a topic with the client's operations; the row itself is the same for all clients."""
    if topic.name is None:
        return topic
    return _Row(
        error_code=topic.error_code,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=topic.partitions,
        topic_authorized_operations=authorizer.operations(context, _TOPIC, topic.name),
    )


def guard_partitions(
    authorizer: RequestAuthorizer,
    handle: Handle,
    broker: BrokerServer,
    context: RequestContext,
    request: DescribeTopicPartitionsRequest,
) -> Any:
    """Return a page of the topics that the client may describe, and errors for the others that it names."""
    first = "" if request.cursor is None else request.cursor.topic_name
    named = {topic.name for topic in request.topics if topic.name >= first}
    rows: list[DescribeTopicPartitionsResponse.Topic] = []
    if request.topics:
        refused = authorizer.unauthorized(context, _DESCRIBE, _TOPIC, named)
        rows = [_unauthorized(name) for name in sorted(refused)]
    else:
        describable = authorizer.decisions(context, _DESCRIBE, _TOPIC)
        named = set(authorizer.image.topics_by_name())
        refused = {name for name in named if not describable[name]}
    wanted = copy(request)
    wanted.topics = [DescribeTopicPartitionsRequest.Topic(name=name) for name in named - refused]
    # No topics would mean all.
    page = handle(broker, context, wanted) if wanted.topics else DescribeTopicPartitionsResponse(topics=[])

    def finish(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        for topic in response.topics:
            topic.topic_authorized_operations = authorizer.operations(context, _TOPIC, topic.name or "")
        response.topics += rows
        return response

    return complete(page, finish)


def _unauthorized(name: str) -> DescribeTopicPartitionsResponse.Topic:
    return DescribeTopicPartitionsResponse.Topic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=False,
        partitions=[],
    )
