"""UnregisterBroker: remove the registration of a broker (KIP-631)."""

from __future__ import annotations

from protocol.schema import Int16, Int32, Message, String, message, wire


@message(key=64, versions=(0, 0), flexible=0)
class UnregisterBrokerRequest(Message):
    """The broker to unregister."""

    broker_id: Int32


@message(key=64, versions=(0, 0), flexible=0)
class UnregisterBrokerResponse(Message):
    """The result."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    error_message: String | None
