"""Configs: DescribeConfigs, AlterConfigs and IncrementalAlterConfigs.

DESCRIBE_CONFIGS or ALTER_CONFIGS is needed on a topic or group, and on the cluster for brokers, their loggers and
client metrics subscriptions. Resources are authorized one by one. A resource of another type is left to the handler,
which refuses it, as is one that a request alters twice.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import TYPE_CHECKING, Any

from broker.authorization.guards import Handle, add_entries, error_for, with_entries
from broker.authorization.outcomes import complete
from broker.authorization.request_authorizer import RequestAuthorizer, authorization_error
from controller.acls.acl import CLUSTER_NAME, AclOperation, AclResourceType
from controller.image import ResourceType

if TYPE_CHECKING:
    from broker.network.connection import RequestContext

_AUTHORIZED_AS = {
    ResourceType.TOPIC: AclResourceType.TOPIC,
    ResourceType.GROUP: AclResourceType.GROUP,
    ResourceType.BROKER: AclResourceType.CLUSTER,
    ResourceType.BROKER_LOGGER: AclResourceType.CLUSTER,
    ResourceType.CLIENT_METRICS: AclResourceType.CLUSTER,
}


def guard_description(
    authorizer: RequestAuthorizer, handle: Handle, server: Any, context: RequestContext, request: Any
) -> Any:
    """Describe the authorized resources."""
    return _guard(authorizer, handle, AclOperation.DESCRIBE_CONFIGS, server, context, request)


def guard_alteration(
    authorizer: RequestAuthorizer, handle: Handle, controller: Any, context: RequestContext, request: Any
) -> Any:
    """Alter the authorized resources."""
    return _guard(authorizer, handle, AclOperation.ALTER_CONFIGS, controller, context, request)


def _guard(
    authorizer: RequestAuthorizer,
    handle: Handle,
    operation: AclOperation,
    node: Any,
    context: RequestContext,
    request: Any,
) -> Any:
    kept = []
    refused: dict[AclResourceType, list[Any]] = {}
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        resource_type = _AUTHORIZED_AS.get(kind)
        is_twice = operation is AclOperation.ALTER_CONFIGS and times[kind, name] > 1
        if resource_type is None or is_twice:
            kept.append(resource)
            continue
        acl_name = CLUSTER_NAME if resource_type is AclResourceType.CLUSTER else name
        if authorizer.authorize(context, operation, resource_type, acl_name):
            kept.append(resource)
        else:
            refused.setdefault(resource_type, []).append(resource)
    if not refused:
        return handle(node, context, request)
    errors = [
        error_for(context, with_entries(request, "resources", resources), authorization_error(resource_type))
        for resource_type, resources in refused.items()
    ]
    outcome = handle(node, context, with_entries(request, "resources", kept)) if kept else errors.pop()
    return complete(outcome, lambda response: reduce(add_entries, errors, response))
