"""What a request needs to be authorized: operations on the cluster, or on the resources that it names."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from controller.acls.acl import AclOperation, AclResourceType


class Requirement(NamedTuple):
    """An operation on resources of a type."""

    operation: AclOperation
    resource_type: AclResourceType
    names: str = ""
    """Where the request names the resources.

    `FIELD` for one name, without which the whole request is refused, or for a list of names; `LIST.FIELD` for a list of
    entries. Names of a list are authorized one by one. Empty for the cluster, and for resources that only a guard
    knows.
    """
    or_on_cluster: AclOperation | None = None
    """The operation on the cluster that is enough instead."""


Requirements: TypeAlias = tuple[Requirement, ...]


def on_cluster(operation: AclOperation, or_on_cluster: AclOperation | None = None) -> Requirements:
    """Return the requirement of an operation on the cluster."""
    return (Requirement(operation, AclResourceType.CLUSTER, or_on_cluster=or_on_cluster),)


def on_topics(
    operation: AclOperation, names: str = "topics.name", or_on_cluster: AclOperation | None = None
) -> Requirements:
    """Return the requirement of an operation on each topic of a request, named by name or by id."""
    return (Requirement(operation, AclResourceType.TOPIC, names, or_on_cluster),)


def on_group(
    operation: AclOperation, names: str = "group_id", or_on_cluster: AclOperation | None = None
) -> Requirements:
    """Return the requirement of an operation on the group, or on each group, of a request."""
    return (Requirement(operation, AclResourceType.GROUP, names, or_on_cluster),)


def on_transactional_id(operation: AclOperation, names: str = "transactional_id") -> Requirements:
    """Return the requirement of an operation on the transactional id, or on each one, of a request."""
    return (Requirement(operation, AclResourceType.TRANSACTIONAL_ID, names),)


def on_delegation_token(operation: AclOperation) -> Requirements:
    """Return the requirement of an operation on each delegation token of a response."""
    return (Requirement(operation, AclResourceType.DELEGATION_TOKEN),)


def on_user(operation: AclOperation) -> Requirements:
    """Return the requirement of an operation on the owner of a delegation token, if the client is another user."""
    return (Requirement(operation, AclResourceType.USER),)
