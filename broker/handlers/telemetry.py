"""GetTelemetrySubscriptions and PushTelemetry: the metrics that a client shall push, and does (KIP-714).

Behaviour
- Pushed metrics are checked (`broker.monitoring.telemetry`), counted and dropped.
- Without a matching subscription the response has no metrics, and the interval until the next request.
- THROTTLING_QUOTA_EXCEEDED before the interval has passed, unless the client's last push was refused for its
  subscription id or compression (`broker.monitoring.telemetry`).
- Apache Kafka serves and lists these APIs only with a plug-in that receives the metrics. Barnabas lists them while a
  CLIENT_METRICS resource exists (`api_versions`) and always serves them: clients may have read an earlier ApiVersions.
"""

from broker.broker_server import BrokerServer
from broker.network.connection import RequestContext
from protocol.compression import Compression
from protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

# In order of preference: clients take the first one that they support.
_ACCEPTED = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)


def get_telemetry_subscriptions(
    broker: BrokerServer, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Return the subscription of the client instance."""
    telemetry = broker.telemetry
    now_ms = broker.loop.time() * 1000
    client_instance_id, subscribed = telemetry.subscription(broker.image, context, request.client_instance_id, now_ms)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client_instance_id,
        subscription_id=subscribed.subscription_id,
        accepted_compression_types=list(_ACCEPTED),
        push_interval_ms=subscribed.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=list(subscribed.metrics),
    )


def push_telemetry(
    broker: BrokerServer, context: RequestContext, request: PushTelemetryRequest
) -> PushTelemetryResponse:
    """Check and count the metrics."""
    broker.telemetry.push(broker.image, context, request, broker.loop.time() * 1000)
    return PushTelemetryResponse()
