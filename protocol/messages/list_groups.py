"""ListGroups: list the groups that this broker coordinates.

Version notes: 4 added states, and a filter by them (KIP-518), 5 types (KIP-848).
"""

from __future__ import annotations

from protocol.schema import Int16, Int32, Message, String, message, struct, wire


@message(key=16, versions=(0, 5), flexible=3)
class ListGroupsRequest(Message):
    """The states and types to list."""

    states_filter: list[String] = wire("4+", default=[])
    types_filter: list[String] = wire("5+", default=[])


@message(key=16, versions=(0, 5), flexible=3)
class ListGroupsResponse(Message):
    """The groups."""

    throttle_time_ms: Int32 = wire("1+", default=0, ignorable=True)
    error_code: Int16 = wire(default=0)
    groups: list[Group]

    @struct
    class Group:
        group_id: String
        protocol_type: String
        group_state: String = wire("4+", default="", ignorable=True)
        group_type: String = wire("5+", default="", ignorable=True)
