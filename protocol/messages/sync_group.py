"""SyncGroup: the group leader sends the assignment, and every member receives its part.

Version notes: 3 added static members (KIP-345), 5 the protocol's type and name, which are checked (KIP-559).
"""

from __future__ import annotations

from protocol.schema import Bytes, Int16, Int32, Message, String, message, struct, wire


@message(key=14, versions=(0, 5), flexible=4)
class SyncGroupRequest(Message):
    """The member; from the leader, the assignments of all members."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = wire("3+", default=None)
    protocol_type: String | None = wire("5+", default=None, ignorable=True)
    protocol_name: String | None = wire("5+", default=None, ignorable=True)
    assignments: list[Assignment]

    @struct
    class Assignment:
        member_id: String
        assignment: Bytes


@message(key=14, versions=(0, 5), flexible=4)
class SyncGroupResponse(Message):
    """The member's assignment."""

    throttle_time_ms: Int32 = wire("1+", default=0, ignorable=True)
    error_code: Int16 = wire(default=0)
    protocol_type: String | None = wire("5+", default=None, ignorable=True)
    protocol_name: String | None = wire("5+", default=None, ignorable=True)
    assignment: Bytes
