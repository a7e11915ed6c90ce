"""JoinGroup: enter a classic group, and wait for its next generation.

Version notes: 1 brought the rebalance time-out (before, the session time-out stands in), 4 the second join
with the id that the first was answered (KIP-394), 5 static members (KIP-345), 7 the protocol type in
answers (KIP-559), 8 the reason (KIP-800), 9 a leader that is told not to assign (KIP-814).
"""

from __future__ import annotations

from protocol.schema import Bool, Bytes, Int16, Int32, Message, String, message, struct, wire


@message(key=11, versions=(0, 9), flexible=6)
class JoinGroupRequest(Message):
    """Who joins, and the assignors it supports with its metadata for each."""

    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = wire("1+", default=-1, ignorable=True)
    member_id: String
    group_instance_id: String | None = wire("5+", default=None)
    protocol_type: String
    protocols: list[Protocol]
    reason: String | None = wire("8+", default=None, ignorable=True)

    @struct
    class Protocol:
        name: String
        metadata: Bytes


@message(key=11, versions=(0, 9), flexible=6)
class JoinGroupResponse(Message):
    """The new generation; its leader gets the members' metadata too."""

    throttle_time_ms: Int32 = wire("2+", default=0, ignorable=True)
    error_code: Int16 = wire(default=0)
    generation_id: Int32 = wire(default=-1)
    protocol_type: String | None = wire("7+", default=None, ignorable=True)
    protocol_name: String | None = wire(nullable="7+")
    leader: String
    skip_assignment: Bool = wire("9+", default=False)
    member_id: String
    members: list[Member]

    @struct
    class Member:
        member_id: String
        group_instance_id: String | None = wire("5+", default=None, ignorable=True)
        metadata: Bytes
