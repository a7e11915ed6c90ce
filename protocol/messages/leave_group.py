"""LeaveGroup: remove members from a classic group.

Version notes: 3 added several members in one request and static ones (KIP-345), 5 the reason (KIP-800).
"""

from __future__ import annotations

from protocol.schema import Int16, Int32, Message, String, message, struct, wire


@message(key=13, versions=(0, 5), flexible=4)
class LeaveGroupRequest(Message):
    """The members that leave."""

    group_id: String
    member_id: String = wire("-2", default="")
    members: list[Member] = wire("3+", default=[])

    @struct
    class Member:
        member_id: String
        group_instance_id: String | None = wire(default=None)
        reason: String | None = wire("5+", default=None, ignorable=True)


@message(key=13, versions=(0, 5), flexible=4)
class LeaveGroupResponse(Message):
    """The result for each member."""

    throttle_time_ms: Int32 = wire("1+", default=0, ignorable=True)
    error_code: Int16 = wire(default=0)
    members: list[Member] = wire("3+", default=[])

    @struct
    class Member:
        member_id: String
        group_instance_id: String | None
        error_code: Int16 = wire(default=0)
