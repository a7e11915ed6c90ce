"""DescribeGroups: describe the state and the members of classic groups.

Version notes: 3 added authorized operations (KIP-430), 4 static members (KIP-345), 6 an error for groups that do not
exist; before, their state is Dead (KIP-1043).
"""

from __future__ import annotations

from protocol.schema import Bool, Bytes, Int16, Int32, Message, String, message, struct, wire


@message(key=15, versions=(0, 6), flexible=5)
class DescribeGroupsRequest(Message):
    """The groups to describe."""

    groups: list[String]
    include_authorized_operations: Bool = wire("3+", default=False)


@message(key=15, versions=(0, 6), flexible=5)
class DescribeGroupsResponse(Message):
    """The state and the members of each group."""

    throttle_time_ms: Int32 = wire("1+", default=0, ignorable=True)
    groups: list[Group]

    @struct
    class Group:
        error_code: Int16 = wire(default=0)
        error_message: String | None = wire("6+", default=None)
        group_id: String
        group_state: String
        protocol_type: String
        protocol_data: String
        members: list[Member]
        authorized_operations: Int32 = wire("3+", default=-0x80000000)

        @struct
        class Member:
            member_id: String
            group_instance_id: String | None = wire("4+", default=None, ignorable=True)
            client_id: String
            client_host: String
            member_metadata: Bytes
            member_assignment: Bytes
