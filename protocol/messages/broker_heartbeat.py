"""BrokerHeartbeat: a broker says that it lives, how far it knows the metadata, and what it wants (KIP-631).

Version notes: 1 names directories that failed (KIP-858), 2 those that are to get no new replicas (KIP-1066).
"""

from __future__ import annotations

from protocol.schema import Bool, Int16, Int32, Int64, Message, Uuid, message, wire


@message(key=63, versions=(0, 2), flexible=0)
class BrokerHeartbeatRequest(Message):
    """A broker's epoch, its offset in the metadata and its wishes; null for cordoned directories: not known yet."""

    broker_id: Int32
    broker_epoch: Int64 = wire(default=-1)
    current_metadata_offset: Int64
    want_fence: Bool
    want_shut_down: Bool
    offline_log_dirs: list[Uuid] = wire("1+", default=[], tag=0)
    cordoned_log_dirs: list[Uuid] | None = wire("2+", default=None, tag=1)


@message(key=63, versions=(0, 2), flexible=0)
class BrokerHeartbeatResponse(Message):
    """The state that the controller has the broker in."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    is_caught_up: Bool = wire(default=False)
    is_fenced: Bool = wire(default=True)
    should_shut_down: Bool = wire(default=False)
