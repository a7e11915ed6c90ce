"""ControllerRegistration: a controller registers with the active controller when it starts (KIP-919)."""

from __future__ import annotations

from protocol.schema import Bool, Int16, Int32, Message, String, UInt16, Uuid, message, struct, wire


@message(key=70, versions=(0, 0), flexible=0)
class ControllerRegistrationRequest(Message):
    """A controller's incarnation, listeners and features."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    listeners: list[Listener]
    features: list[Feature]

    @struct
    class Listener:
        name: String
        host: String
        port: UInt16
        security_protocol: Int16

    @struct
    class Feature:
        name: String
        min_supported_version: Int16
        max_supported_version: Int16


@message(key=70, versions=(0, 0), flexible=0)
class ControllerRegistrationResponse(Message):
    """Whether the controller is registered."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    error_message: String | None
