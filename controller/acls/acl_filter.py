"""The filter of DescribeAcls and DeleteAcls (Kafka: `AclBindingFilter`).

Null, and ANY for an enum, match everything. The type of the pattern says what the name is:

    LITERAL, PREFIXED    the name of an entry's pattern of this type
    ANY                  the name of an entry's pattern of any type
    MATCH                the name of a resource: entries whose pattern covers it match
"""

from enum import Enum, IntEnum
from typing import NamedTuple

from controller.acls.acl import WILDCARD, Acl, AclOperation, AclPermissionType, AclResourceType, PatternType
from protocol.errors import ErrorCode, KafkaError

_ANY_PATTERN = (PatternType.ANY, PatternType.MATCH)


class NameFilter(Enum):
    """What the name of a filter is compared with."""

    NONE = "nothing"
    EXACT = "the names of patterns"
    COVERED = "the resources that patterns cover"


class AclFilter(NamedTuple):
    """A filter; enums are numbers."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    def check(self) -> None:
        """Raise KafkaError INVALID_REQUEST if a number has no meaning."""
        if _is_unknown(self.resource_type, AclResourceType) or _is_unknown(self.pattern_type, PatternType):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
        if _is_unknown(self.operation, AclOperation) or _is_unknown(self.permission_type, AclPermissionType):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")

    @property
    def name_filter(self) -> NameFilter:
        """Return what the name is compared with."""
        if self.resource_name is None:
            return NameFilter.NONE
        return NameFilter.COVERED if self.pattern_type == PatternType.MATCH else NameFilter.EXACT

    def matches(self, acl: Acl) -> bool:
        """Return whether the entry matches."""
        return (
            self.resource_type in (AclResourceType.ANY, acl.resource_type)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission_type in (AclPermissionType.ANY, acl.permission_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and (self.pattern_type in _ANY_PATTERN or self.pattern_type == acl.pattern_type)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        name = self.resource_name
        if name is None or acl.resource_name == name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD


def _is_unknown(value: int, enum: type[IntEnum]) -> bool:
    return value == 0 or value not in list(enum)
