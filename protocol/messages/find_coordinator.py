"""FindCoordinator: find the broker that coordinates a group or a transactional id.

Version notes: 1 added transactional ids (key type 1), 4 several keys in one request (KIP-699), 6 share groups (key type
2, KIP-932).
"""

from __future__ import annotations

from protocol.schema import Int8, Int16, Int32, Message, String, message, struct, wire


@message(key=10, versions=(0, 6), flexible=3)
class FindCoordinatorRequest(Message):
    """The keys and their type."""

    key: String = wire("-3", default="")
    key_type: Int8 = wire("1+", default=0)
    coordinator_keys: list[String] = wire("4+", default=[])


@message(key=10, versions=(0, 6), flexible=3)
class FindCoordinatorResponse(Message):
    """The address of the coordinator; from version 4 on for each key."""

    throttle_time_ms: Int32 = wire("1+", default=0, ignorable=True)
    error_code: Int16 = wire("-3", default=0)
    error_message: String | None = wire("1-3", default="", ignorable=True)
    node_id: Int32 = wire("-3", default=0)
    host: String = wire("-3", default="")
    port: Int32 = wire("-3", default=0)
    coordinators: list[Coordinator] = wire("4+", default=[])

    @struct
    class Coordinator:
        key: String
        node_id: Int32
        host: String
        port: Int32
        error_code: Int16 = wire(default=0)
        error_message: String | None
