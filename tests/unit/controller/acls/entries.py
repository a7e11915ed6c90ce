"""Access control entries for tests, written as a line: `allow User:a WRITE TOPIC:t* from 10.0.0.1`."""

from __future__ import annotations

from controller.acls.acl import WILDCARD, Acl, AclOperation, AclPermissionType, AclResourceType, PatternType
from controller.acls.acls_image import AclsImage
from controller.acls.authorizer import StandardAuthorizer


def acl(line: str) -> Acl:
    """Return the entry of a line. A name that ends with `*` is a prefix, `*` alone every name; any host by default."""
    permission, principal, operation, resource, *host = line.split()
    resource_type, _, name = resource.partition(":")
    prefixed = name.endswith("*") and name != WILDCARD
    return Acl(
        resource_type=AclResourceType[resource_type],
        resource_name=name.removesuffix("*") if prefixed else name,
        pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        principal=principal,
        host=host[1] if host else WILDCARD,
        operation=AclOperation[operation],
        permission_type=AclPermissionType[permission.upper()],
    )


def acl_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def image_of(*lines: str) -> AclsImage:
    builder = AclsImage().change()
    for number, line in enumerate(lines):
        builder.add(acl_id(number), acl(line))
    return builder.build()


def authorizer_of(*lines: str, super_users: str = "", allow_if_no_acl: bool = False) -> StandardAuthorizer:
    authorizer = StandardAuthorizer(super_users.split(), allow_if_no_acl=allow_if_no_acl)
    authorizer.load(image_of(*lines))
    return authorizer


def is_allowed(
    authorizer: StandardAuthorizer, operation: str, resource: str, principal: str = "User:a", host: str = "10.0.0.1"
) -> bool:
    resource_type, _, name = resource.partition(":")
    return authorizer.authorize(principal, host, AclOperation[operation], AclResourceType[resource_type], name)
