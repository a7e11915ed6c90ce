"""Broker metrics about client telemetry pushes."""

from __future__ import annotations

from broker.network.connection import RequestContext
from protocol.api import ApiKey
from protocol.messages.push_telemetry import PushTelemetryRequest
from tests.unit.broker.monitoring.conftest import Monitored


def test_pushes_are_counted_with_their_bytes(monitored: Monitored) -> None:
    broker = monitored.broker
    context = RequestContext(ApiKey.PUSH_TELEMETRY, 0, 1, "shop", 1, "PLAINTEXT", "127.0.0.1")
    instance, subscribed = broker.telemetry.subscription(broker.image, context, bytes(16), 0)
    request = PushTelemetryRequest(
        client_instance_id=instance,
        subscription_id=subscribed.subscription_id,
        terminating=False,
        compression_type=0,
        metrics=b"metrics",
    )
    broker.telemetry.push(broker.image, context, request, 0)
    assert monitored.value("kafka_server_client_metrics_instance_count") == 1
    assert monitored.value("kafka_server_client_metrics_plugin_export_total") == 1
    assert monitored.value("barnabas_client_metrics_bytes_total") == 7
    assert monitored.value("kafka_server_client_metrics_throttle_total") == 0
