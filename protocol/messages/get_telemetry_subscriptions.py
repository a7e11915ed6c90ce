"""GetTelemetrySubscriptions: get the metrics that a client should push, and the interval (KIP-714)."""

from __future__ import annotations

from protocol.schema import ZERO_UUID, Bool, Int8, Int16, Int32, Message, String, Uuid, message, wire


@message(key=71, versions=(0, 0), flexible=0)
class GetTelemetrySubscriptionsRequest(Message):
    """The client instance id; zero to get one."""

    client_instance_id: Uuid


@message(key=71, versions=(0, 0), flexible=0)
class GetTelemetrySubscriptionsResponse(Message):
    """The subscribed metrics, as prefixes of their names: none, or `*` for all."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    client_instance_id: Uuid = wire(default=ZERO_UUID)
    subscription_id: Int32 = wire(default=0)
    accepted_compression_types: list[Int8]
    push_interval_ms: Int32 = wire(default=0)
    telemetry_max_bytes: Int32 = wire(default=0)
    delta_temporality: Bool = wire(default=False)
    requested_metrics: list[String]
