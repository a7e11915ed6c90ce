"""PushTelemetry: send a client's metrics, as OpenTelemetry MetricsData v1 in protobuf (KIP-714)."""

from __future__ import annotations

from protocol.schema import Bool, Bytes, Int8, Int16, Int32, Message, Uuid, message, wire


@message(key=72, versions=(0, 0), flexible=0)
class PushTelemetryRequest(Message):
    """Metrics of one client instance; `terminating` marks its last ones."""

    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


@message(key=72, versions=(0, 0), flexible=0)
class PushTelemetryResponse(Message):
    """The result."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
