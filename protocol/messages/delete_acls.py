"""DeleteAcls: delete the access control entries that match filters (KIP-140).

Version notes: 1 added prefixed patterns (KIP-290), 3 users as resources (KIP-373).
"""

from __future__ import annotations

from protocol.schema import Int8, Int16, Int32, Message, String, message, struct, wire


@message(key=31, versions=(1, 3), flexible=2)
class DeleteAclsRequest(Message):
    """The filters; null matches everything."""

    filters: list[Filter]

    @struct
    class Filter:
        resource_type_filter: Int8
        resource_name_filter: String | None
        pattern_type_filter: Int8 = wire(default=3)
        principal_filter: String | None
        host_filter: String | None
        operation: Int8
        permission_type: Int8


@message(key=31, versions=(1, 3), flexible=2)
class DeleteAclsResponse(Message):
    """The entries that each filter deleted, in the request's order."""

    throttle_time_ms: Int32 = wire(default=0)
    filter_results: list[Result]

    @struct
    class Result:
        error_code: Int16 = wire(default=0)
        error_message: String | None
        matching_acls: list[Acl]

        @struct
        class Acl:
            error_code: Int16 = wire(default=0)
            error_message: String | None
            resource_type: Int8
            resource_name: String
            pattern_type: Int8 = wire(default=3)
            principal: String
            host: String
            operation: Int8
            permission_type: Int8
