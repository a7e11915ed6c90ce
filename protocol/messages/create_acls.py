"""CreateAcls: add access control entries (KIP-140).

Version notes: 1 added prefixed patterns (KIP-290), 3 users as resources (KIP-373).
"""

from __future__ import annotations

from protocol.schema import Int8, Int16, Int32, Message, String, message, struct, wire


@message(key=30, versions=(1, 3), flexible=2)
class CreateAclsRequest(Message):
    """The entries to add."""

    creations: list[Creation]

    @struct
    class Creation:
        resource_type: Int8
        resource_name: String
        resource_pattern_type: Int8 = wire(default=3)
        principal: String
        host: String
        operation: Int8
        permission_type: Int8


@message(key=30, versions=(1, 3), flexible=2)
class CreateAclsResponse(Message):
    """The result for each entry, in the request's order."""

    throttle_time_ms: Int32 = wire(default=0)
    results: list[Result]

    @struct
    class Result:
        error_code: Int16 = wire(default=0)
        error_message: String | None
