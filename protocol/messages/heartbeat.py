"""Heartbeat: a member of a classic group reports that it is alive.

Version notes: 3 added static members (KIP-345).
"""

from __future__ import annotations

from protocol.schema import Int16, Int32, Message, String, message, wire


@message(key=12, versions=(0, 4), flexible=4)
class HeartbeatRequest(Message):
    """The member and its generation."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = wire("3+", default=None)


@message(key=12, versions=(0, 4), flexible=4)
class HeartbeatResponse(Message):
    """An error code, such as REBALANCE_IN_PROGRESS if the member must join again."""

    throttle_time_ms: Int32 = wire("1+", default=0, ignorable=True)
    error_code: Int16 = wire(default=0)
