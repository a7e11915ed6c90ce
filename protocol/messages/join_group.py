"""JoinGroup: join a classic group, and wait for its next generation.

Version notes: 1 added the rebalance timeout (before, the session timeout is used), 4 the second join with the member id
from the first response (KIP-394), 5 static members (KIP-345), 7 the protocol type in responses (KIP-559), 8 the reason
(KIP-800), 9 leaders that skip the assignment (KIP-814).
"""

from __future__ import annotations

from protocol.schema import Bool, Bytes, Int16, Int32, Message, String, message, struct, wire


@message(key=11, versions=(0, 9), flexible=6)
class JoinGroupRequest(Message):
    """The member, and its supported assignors with metadata for each."""

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
    """The new generation; for its leader also the metadata of all members."""

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
