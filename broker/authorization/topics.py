"""CreateTopics and DeleteTopics: CREATE and DELETE on each topic, or on the cluster.

Behaviour
- The configs of a created topic are returned if the client has DESCRIBE_CONFIGS on it; else the topic's result has
  TOPIC_AUTHORIZATION_FAILED for them.
- A topic that the client may not describe does not show that it exists. If it is to be deleted by id, its name is not
  returned, and if it is to be deleted by name, its id is not.
- What is wrong with a request itself, such as a name that occurs twice, is reported first, as by Kafka.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias

from broker.authorization.guards import with_entries
from broker.authorization.outcomes import complete
from broker.authorization.request_authorizer import authorization_error
from controller.acls.acl import AclOperation, AclResourceType
from controller.topic_names import CLUSTER_METADATA
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.primitives import ZERO_UUID

if TYPE_CHECKING:
    from broker.authorization.guards import Handle
    from broker.authorization.request_authorizer import RequestAuthorizer
    from broker.controller_server import ControllerServer
    from broker.network.connection import RequestContext

_TOPIC = AclResourceType.TOPIC
_Requested: TypeAlias = "tuple[str | None, bytes]"


def guard_creation(
    authorizer: RequestAuthorizer,
    handle: Handle,
    controller: ControllerServer,
    context: RequestContext,
    request: CreateTopicsRequest,
) -> Any:
    """Create the authorized topics; return configs where the client may describe them."""
    times = Counter(topic.name for topic in request.topics)
    refused: set[str] = set()
    if not authorizer.may_on_cluster(context, AclOperation.CREATE):
        names = {name for name, count in times.items() if count == 1 and name != CLUSTER_METADATA}
        refused = authorizer.unauthorized(context, AclOperation.CREATE, _TOPIC, names)
    rows = [
        CreateTopicsResponse.Topic(
            name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message="Authorization failed."
        )
        for name in times
        if name in refused
    ]
    kept = [topic for topic in request.topics if topic.name not in refused]
    if rows and not kept:
        return CreateTopicsResponse(topics=rows)

    def finish(response: CreateTopicsResponse) -> CreateTopicsResponse:
        describable = authorizer.decisions(context, AclOperation.DESCRIBE_CONFIGS, _TOPIC)
        for topic in response.topics:
            if not topic.error_code and not describable[topic.name]:
                _hide_configs(topic)
        response.topics += rows
        return response

    return complete(handle(controller, context, with_entries(request, "topics", kept)), finish)


def _hide_configs(topic: CreateTopicsResponse.Topic) -> None:
    topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic.num_partitions = topic.replication_factor = -1
    topic.configs = []


def guard_deletion(
    authorizer: RequestAuthorizer,
    handle: Handle,
    controller: ControllerServer,
    context: RequestContext,
    request: DeleteTopicsRequest,
) -> Any:
    """Delete the authorized topics."""
    if authorizer.may_on_cluster(context, AclOperation.DELETE):
        return handle(controller, context, request)
    requested = [(topic.name, topic.topic_id) for topic in request.topics]
    requested += [(name, ZERO_UUID) for name in request.topic_names]
    refused: dict[_Requested, DeleteTopicsResponse.Topic] = {}
    for one, count in Counter(requested).items():
        if count == 1 and (row := _refuse_deletion(authorizer, context, *one)) is not None:
            refused[one] = row
    if not refused:
        return handle(controller, context, request)
    kept = copy(request)
    kept.topics = [topic for topic in request.topics if (topic.name, topic.topic_id) not in refused]
    kept.topic_names = [name for name in request.topic_names if (name, ZERO_UUID) not in refused]
    if not (kept.topics or kept.topic_names):
        return DeleteTopicsResponse(responses=list(refused.values()))

    def finish(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        response.responses += refused.values()
        return response

    return complete(handle(controller, context, kept), finish)


def _refuse_deletion(
    authorizer: RequestAuthorizer, context: RequestContext, name: str | None, topic_id: bytes
) -> DeleteTopicsResponse.Topic | None:
    """Return the result of a topic that the client may not delete; None if it may, or the handler finds the error."""
    error = authorization_error(_TOPIC)
    if name is None:
        topic = authorizer.image.topic_by_id(topic_id)
        if topic is None or authorizer.authorize(context, AclOperation.DELETE, _TOPIC, topic.name):
            return None
        shown = topic.name if authorizer.may(context, AclOperation.DESCRIBE, _TOPIC, topic.name) else None
        return DeleteTopicsResponse.Topic(
            name=shown, topic_id=topic_id, error_code=error.code, error_message=error.message
        )
    if topic_id != ZERO_UUID:
        return None
    if authorizer.authorize(context, AclOperation.DESCRIBE, _TOPIC, name) and (
        authorizer.image.topic(name) is None or authorizer.authorize(context, AclOperation.DELETE, _TOPIC, name)
    ):
        return None
    return DeleteTopicsResponse.Topic(name=name, topic_id=ZERO_UUID, error_code=error.code, error_message=error.message)
