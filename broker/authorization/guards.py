"""Guards of handlers, made from the requirements of a route.

A guard raises KafkaError if the request as a whole is not authorized. Of a request with a list of resources it passes
on those that are authorized, and adds the others to the response, after them, with their error: the response of
`error_responses` to a request with just these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from broker.authorization.outcomes import complete
from broker.authorization.request_authorizer import RequestAuthorizer, authorization_error
from broker.authorization.requirement import Requirement
from broker.error_responses import error_response
from protocol.api import ApiKey
from protocol.fields import fields_of

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from protocol.errors import KafkaError
    from protocol.schema import Message

Handle: TypeAlias = Callable[[Any, Any, Any], Any]
"""A handler: `handle(node, context, request)` returns the outcome."""


def guarded(authorizer: RequestAuthorizer, requirements: Sequence[Requirement], guard: str, handle: Handle) -> Handle:
    """Return the handler with a guard: the function `guard`, or one made from `requirements` if that is empty.

    Super users need none. `MODULE:FUNCTION` is a function in `broker.authorization`, `MODULE` its function `guard`.
    """
    if not (guard or requirements):
        return handle
    guarding: Callable[..., Any] = guard_function(guard) if guard else partial(_guard, requirements)

    def handle_authorized(node: Any, context: RequestContext, request: Any) -> Any:
        if authorizer.is_super_user(context):
            return handle(node, context, request)
        authorizer.requests += 1
        return guarding(authorizer, handle, node, context, request)

    return handle_authorized


def guard_function(name: str) -> Callable[..., Any]:
    """Return a guard's function, imported."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"broker.authorization.{module}"), function or "guard")
    return found


def _guard(
    requirements: Sequence[Requirement],
    authorizer: RequestAuthorizer,
    handle: Handle,
    node: Any,
    context: RequestContext,
    request: Any,
) -> Any:
    """Check all requirements in their order, and call the handler with what is authorized."""
    for requirement in requirements:
        operation, resource_type, names, or_on_cluster = requirement
        if or_on_cluster is not None and authorizer.may_on_cluster(context, or_on_cluster):
            continue
        if not names:
            authorizer.require(context, operation)
            continue
        field, _, _ = names.partition(".")
        value = getattr(request, field)
        if isinstance(value, str):
            authorizer.require(context, operation, resource_type, value)
        else:
            handle = partial(guard_each, authorizer, handle, requirement)
    return handle(node, context, request)


def guard_each(
    authorizer: RequestAuthorizer,
    handle: Handle,
    requirement: Requirement,
    node: Any,
    context: RequestContext,
    request: Any,
) -> Any:
    """Call the handler with the authorized resources of a request; add the others with their error to the response."""
    field, _, attribute = requirement.names.partition(".")
    entries = getattr(request, field)
    names = [authorizer.topic_name(entry, attribute) if attribute else entry for entry in entries]
    refused = authorizer.unauthorized(
        context, requirement.operation, requirement.resource_type, (name for name in names if name is not None)
    )
    if not refused:
        return handle(node, context, request)
    kept = [entry for name, entry in zip(names, entries, strict=True) if name not in refused]
    others = [entry for name, entry in zip(names, entries, strict=True) if name in refused]
    error = error_for(context, with_entries(request, field, others), authorization_error(requirement.resource_type))
    if not kept:
        return error
    return complete(
        handle(node, context, with_entries(request, field, kept)), lambda response: add_entries(response, error)
    )


def with_entries(request: Any, field: str, entries: Iterable[Any]) -> Any:
    """Return a copy of a request with other entries in a list."""
    changed = copy(request)
    setattr(changed, field, list(entries))
    return changed


def error_for(context: RequestContext, request: Message, error: KafkaError) -> Message:
    """Return the response in which each entry of a request failed."""
    key, version = ApiKey(context.api_key), context.api_version
    return error_response(key, version, request, error.code, error.message, of_each=True)


def add_entries(response: Any, others: Any) -> Any:
    """Add the entries in the lists of another response of the same type to those of `response`, and return it."""
    for field in fields_of(type(response)):
        if field.is_list and (entries := getattr(others, field.name)):
            getattr(response, field.name).extend(entries)
    return response
