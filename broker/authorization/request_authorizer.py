"""Decisions about what the client of a request may do (Kafka: `AuthHelper`).

They follow the access control entries of the current metadata image. Refusals of what a client asked for explicitly are
counted and logged; filters, and the computation of authorized operations, ask without that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from broker.authorization.audit_log import Refusal
from controller.acls.acl import AUTHORIZATION_ERRORS, CLUSTER_NAME, SUPPORTED_OPERATIONS, AclOperation, AclResourceType
from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import ZERO_UUID

if TYPE_CHECKING:
    from broker.authorization.audit_log import AuditLog
    from broker.network.connection import RequestContext
    from controller.acls.authorizer import StandardAuthorizer
    from controller.image import MetadataImage

_MESSAGES = {
    AclResourceType.TOPIC: "Topic authorization failed.",
    AclResourceType.GROUP: "Group authorization failed.",
    AclResourceType.CLUSTER: "Cluster authorization failed.",
    AclResourceType.TRANSACTIONAL_ID: "Transactional Id authorization failed.",
    AclResourceType.DELEGATION_TOKEN: "Delegation Token authorization failed.",
}


class MetadataHolder(Protocol):
    """The part of the raft driver that is used here."""

    @property
    def image(self) -> MetadataImage:
        """Return the metadata that is committed and applied."""


class Client(Protocol):
    """The part of a request's context, or of its connection, that decisions depend on."""

    @property
    def principal(self) -> str:
        """Return the principal, as `type:name`."""

    @property
    def client_host(self) -> str:
        """Return the address."""


class RequestAuthorizer:
    """The authorizer of a node, for all its listeners."""

    def __init__(self, authorizer: StandardAuthorizer, metadata: MetadataHolder, audit_log: AuditLog) -> None:
        """Decide by the entries in the image of `metadata`."""
        self._authorizer = authorizer
        self._metadata = metadata
        self._audit_log = audit_log
        self.requests = 0
        """The number of requests that needed decisions: those of super users do not."""
        self.refusals = 0
        """The number of resources that were refused."""

    @property
    def acl_count(self) -> int:
        """Return the number of access control entries."""
        return len(self._metadata.image.acls)

    @property
    def image(self) -> MetadataImage:
        """Return the current metadata."""
        return self._metadata.image

    def topic_name(self, entry: Any, attribute: str = "name") -> str | None:
        """Return the name of a request's topic, from its id if it has one; None for an unknown id."""
        topic_id = getattr(entry, "topic_id", ZERO_UUID)
        if topic_id == ZERO_UUID:
            name: str | None = getattr(entry, attribute)
            return name
        topic = self.image.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def is_super_user(self, client: Client) -> bool:
        """Return whether the client may do everything."""
        return self._authorizer.is_super_user(client.principal)

    def decisions(self, client: Client, operation: AclOperation, resource_type: AclResourceType) -> Mapping[str, bool]:
        """Return whether the client may do an operation on resources of a type: a table of names, to be used with `[]`.

        KafkaError UNKNOWN_SERVER_ERROR while the metadata is not loaded (Kafka: `AuthorizerNotReadyException`).
        """
        image = self._metadata.image
        self._authorizer.load(image.acls)
        if image.offset < 0 and not self.is_super_user(client):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The ACLs are not loaded yet.")
        return self._authorizer.decisions(client.principal, client.client_host, operation, resource_type)

    def may(self, client: Client, operation: AclOperation, resource_type: AclResourceType, name: str) -> bool:
        """Return whether the client may do an operation on a resource; a refusal is not logged."""
        return self.decisions(client, operation, resource_type)[name]

    def may_on_cluster(self, client: Client, operation: AclOperation) -> bool:
        """Return whether the client may do an operation on the cluster; a refusal is not logged."""
        return self.may(client, operation, AclResourceType.CLUSTER, CLUSTER_NAME)

    def may_on_any(self, client: Client, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Return whether the client may do an operation on at least one resource of a type (KIP-679)."""
        self.decisions(client, operation, resource_type)
        return self._authorizer.authorize_by_resource_type(
            client.principal, client.client_host, operation, resource_type
        )

    def authorize(
        self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        """Return whether the client may do an operation on a resource; a refusal is logged."""
        try:
            if self.decisions(context, operation, resource_type)[name]:
                return True
        except KafkaError:  # nodes that are not super users of each other never load the entries
            self._log_refusal(context, operation, resource_type, name)
            raise
        self._log_refusal(context, operation, resource_type, name)
        return False

    def require(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: AclResourceType = AclResourceType.CLUSTER,
        name: str = CLUSTER_NAME,
    ) -> None:
        """Raise KafkaError unless the client may do an operation on a resource."""
        if not self.authorize(context, operation, resource_type, name):
            if resource_type is AclResourceType.CLUSTER:
                raise KafkaError(
                    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                    f"Cluster authorization failed: the request needs {operation.name} permission.",
                )
            raise authorization_error(resource_type)

    def unauthorized(
        self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType, names: Iterable[str]
    ) -> set[str]:
        """Return those of `names` on which the client may not do an operation; one refusal is logged for all."""
        decisions = self.decisions(context, operation, resource_type)
        found = {name for name in names if not decisions[name]}
        if found:
            self._log_refusal(context, operation, resource_type, min(found), len(found))
        return found

    def operations(self, client: Client, resource_type: AclResourceType, name: str) -> int:
        """Return the operations that the client may do on a resource, as the bits of a response (KIP-430)."""
        supported: Collection[AclOperation] = SUPPORTED_OPERATIONS[resource_type]
        return sum(1 << operation for operation in supported if self.may(client, operation, resource_type, name))

    def cluster_operations(self, client: Client) -> int:
        """Return the operations that the client may do on the cluster: none if it may not describe it."""
        if not self.may_on_cluster(client, AclOperation.DESCRIBE):
            return 0
        return self.operations(client, AclResourceType.CLUSTER, CLUSTER_NAME)

    def may_request_tokens_for(self, context: RequestContext, owner: str) -> bool:
        """Return whether the client may request delegation tokens for an owner (KIP-373); a refusal is logged."""
        return owner == context.principal or self.authorize(
            context, AclOperation.CREATE_TOKENS, AclResourceType.USER, owner
        )

    def _log_refusal(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        resources: int = 1,
    ) -> None:
        self.refusals += resources
        refusal = Refusal(
            context.principal, context.client_host, operation, resource_type, name, context.api_key, context.client_id
        )
        self._audit_log.add(refusal, resources)


def authorization_error(resource_type: AclResourceType) -> KafkaError:
    """Return the error of a resource, or of a whole request, that is not authorized."""
    return KafkaError(AUTHORIZATION_ERRORS[resource_type], _MESSAGES[resource_type])
