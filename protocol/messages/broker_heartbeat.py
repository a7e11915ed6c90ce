"""BrokerHeartbeat: a broker reports that it is alive, its metadata offset, and requested state changes (KIP-631).

Version notes: 1 added failed directories (KIP-858), 2 cordoned ones, which get no new replicas (KIP-1066).
"""

from __future__ import annotations

from protocol.schema import Bool, Int16, Int32, Int64, Message, Uuid, message, wire


@message(key=63, versions=(0, 2), flexible=0)
class BrokerHeartbeatRequest(Message):
    """A broker's epoch, metadata offset and requested state; null cordoned directories: not known yet."""

    broker_id: Int32
    broker_epoch: Int64 = wire(default=-1)
    current_metadata_offset: Int64
    want_fence: Bool
    want_shut_down: Bool
    offline_log_dirs: list[Uuid] = wire("1+", default=[], tag=0)
    cordoned_log_dirs: list[Uuid] | None = wire("2+", default=None, tag=1)


@message(key=63, versions=(0, 2), flexible=0)
class BrokerHeartbeatResponse(Message):
    """The broker's state in the controller."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    is_caught_up: Bool = wire(default=False)
    is_fenced: Bool = wire(default=True)
    should_shut_down: Bool = wire(default=False)
