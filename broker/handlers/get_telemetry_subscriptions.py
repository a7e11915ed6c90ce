"""GetTelemetrySubscriptions: which metrics this client shall push, and how often (KIP-714).

Behaviour
- Without any subscription the answer names no metrics, and an interval after which to ask again.
- A client that asks before its interval has passed gets THROTTLING_QUOTA_EXCEEDED, unless a push of its was refused for
  its subscription or compression (`broker.telemetry`).
- Apache Kafka serves and lists this only with a plug-in that receives the metrics. Barnabas lists it while a
  CLIENT_METRICS resource exists (`api_versions`) and always answers, since clients may have been told before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.compression import Compression
from protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import RequestContext

# The one that is best first: clients take the first that they have.
_ACCEPTED = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)


def handle(
    broker: Broker, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Answer with the subscription of the client's instance."""
    telemetry = broker.telemetry
    now_ms = broker.loop.time() * 1000
    client_instance_id, subscribed = telemetry.ask(broker.image, context, request.client_instance_id, now_ms)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client_instance_id,
        subscription_id=subscribed.subscription_id,
        accepted_compression_types=list(_ACCEPTED),
        push_interval_ms=subscribed.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=list(subscribed.metrics),
    )
