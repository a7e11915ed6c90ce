"""ControllerRegistration: a controller registers with the active controller when it starts (KIP-919)."""

from __future__ import annotations

from protocol.messages.broker_registration import RegisteredListener, SupportedFeature
from protocol.schema import Bool, Int16, Int32, Message, String, Uuid, message, wire


@message(key=70, versions=(0, 0), flexible=0)
class ControllerRegistrationRequest(Message):
    """A controller's incarnation, listeners and features."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    listeners: list[RegisteredListener]
    features: list[SupportedFeature]


@message(key=70, versions=(0, 0), flexible=0)
class ControllerRegistrationResponse(Message):
    """Whether the controller is registered."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    error_message: String | None
