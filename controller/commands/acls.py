"""Creation and deletion of access control entries (KIP-140; Kafka: `AclControlManager`, `AclApis`).

Each entry of a request is checked on its own; one that exists already is a success. An entry for the cluster has its
only name. At most `MAX_ACLS_PER_REQUEST` entries are created or deleted at a time.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from controller.acls.acl import CLUSTER_NAME, Acl, AclOperation, AclPermissionType, AclResourceType, PatternType
from controller.acls.acl_filter import AclFilter
from controller.commands.controller_result import ControllerResult
from controller.commands.random_uuid import random_uuid
from controller.records import acl_record
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from protocol.records.metadata import RemoveAccessControlEntryRecord

if TYPE_CHECKING:
    from collections.abc import Collection
    from random import Random

    from controller.image import MetadataImage
    from protocol.schema import Message

MAX_ACLS_PER_REQUEST = 10_000
MAX_CHARACTERS_PER_REQUEST = 4 << 20
"""The most characters of names, principals and hosts of the entries that a request creates."""

_PERMISSIONS = (AclPermissionType.DENY, AclPermissionType.ALLOW)
_PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)
_FIRST_CONCRETE = 2
"""The first resource type and operation that is not UNKNOWN or ANY."""

_Result = DeleteAclsResponse.Result


def create_acls(
    image: MetadataImage, request: CreateAclsRequest, random: Random
) -> ControllerResult[CreateAclsResponse]:
    """Create the valid entries that do not exist yet; POLICY_VIOLATION for all if they are too many or too large."""
    results = []
    new: dict[Acl, None] = {}
    for creation in request.creations:
        acl = Acl(
            resource_type=creation.resource_type,
            resource_name=creation.resource_name,
            pattern_type=creation.resource_pattern_type,
            principal=creation.principal,
            host=creation.host,
            operation=creation.operation,
            permission_type=creation.permission_type,
        )
        result = CreateAclsResponse.Result(error_message="")
        results.append(result)
        try:
            _check(acl)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        else:
            if acl not in image.acls:
                new[acl] = None
    characters = sum(len(acl.resource_name) + len(acl.principal) + len(acl.host) for acl in new)
    if len(new) > MAX_ACLS_PER_REQUEST or characters > MAX_CHARACTERS_PER_REQUEST:
        for result in results:
            result.error_code = ErrorCode.POLICY_VIOLATION
            result.error_message = "Unable to perform excessively large batch operation."
        new.clear()
    records: list[Message] = []
    ids: set[bytes] = set()
    for acl in new:
        acl_id = _new_id(image, ids, random)
        ids.add(acl_id)
        records.append(acl_record(acl_id, acl))
    return ControllerResult(tuple(records), CreateAclsResponse(results=results))


def _check(acl: Acl) -> None:
    """Raise KafkaError INVALID_REQUEST unless the entry may exist."""
    if acl.resource_type == AclResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise _invalid_request(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise _invalid_request("Invalid empty resource name")
    _check_enum(acl.resource_type, list(AclResourceType)[_FIRST_CONCRETE:], "resourceType", AclResourceType)
    _check_enum(acl.pattern_type, _PATTERNS, "patternType", PatternType)
    _check_enum(acl.operation, list(AclOperation)[_FIRST_CONCRETE:], "operation", AclOperation)
    _check_enum(acl.permission_type, _PERMISSIONS, "permissionType", AclPermissionType)
    if ":" not in acl.principal:
        raise _invalid_request(
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )


def _check_enum(value: int, valid: Collection[int], field: str, enum: type[IntEnum]) -> None:
    if value not in valid:
        name = enum(value).name if value in list(enum) else "UNKNOWN"
        raise _invalid_request(f"Invalid {field} {name}")


def _new_id(image: MetadataImage, others: Collection[bytes], random: Random) -> bytes:
    while True:
        acl_id = random_uuid(random)
        if acl_id not in image.acls.by_id and acl_id not in others:
            return acl_id


def delete_acls(image: MetadataImage, request: DeleteAclsRequest) -> ControllerResult[DeleteAclsResponse]:
    """Delete the entries that match any of the filters; INVALID_REQUEST for all filters if they are too many."""
    results: dict[AclFilter, _Result] = {}
    filters: list[AclFilter] = []
    deleted: dict[bytes, None] = {}
    for requested in request.filters:
        wanted = AclFilter(
            resource_type=requested.resource_type_filter,
            resource_name=requested.resource_name_filter,
            pattern_type=requested.pattern_type_filter,
            principal=requested.principal_filter,
            host=requested.host_filter,
            operation=requested.operation,
            permission_type=requested.permission_type,
        )
        filters.append(wanted)
        if wanted in results:
            continue
        result = results[wanted] = _Result(error_message=None, matching_acls=[])
        try:
            wanted.check()
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        for acl_id, acl in image.acls.matching(wanted):
            deleted[acl_id] = None
            result.matching_acls.append(_Result.Acl(error_message=None, **acl._asdict()))
    if len(deleted) > MAX_ACLS_PER_REQUEST:
        message = f"Cannot remove more than {MAX_ACLS_PER_REQUEST} acls in a single delete operation."
        refused = _Result(error_code=ErrorCode.INVALID_REQUEST, error_message=message, matching_acls=[])
        return ControllerResult((), DeleteAclsResponse(filter_results=[refused] * len(filters)))
    response = DeleteAclsResponse(filter_results=[results[wanted] for wanted in filters])
    return ControllerResult(tuple(RemoveAccessControlEntryRecord(id=acl_id) for acl_id in deleted), response)


def _invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
