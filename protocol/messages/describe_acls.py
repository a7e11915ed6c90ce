"""DescribeAcls: list the access control entries that match a filter (KIP-140).

Version notes: 1 added prefixed patterns (KIP-290), 3 users as resources (KIP-373).
"""

from __future__ import annotations

from protocol.schema import Int8, Int16, Int32, Message, String, message, struct, wire


@message(key=29, versions=(1, 3), flexible=2)
class DescribeAclsRequest(Message):
    """The filter; null matches everything."""

    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = wire(default=3)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


@message(key=29, versions=(1, 3), flexible=2)
class DescribeAclsResponse(Message):
    """The entries, by resource."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    error_message: String | None
    resources: list[Resource]

    @struct
    class Resource:
        resource_type: Int8
        resource_name: String
        pattern_type: Int8 = wire(default=3)
        acls: list[Acl]

        @struct
        class Acl:
            principal: String
            host: String
            operation: Int8
            permission_type: Int8
