"""PushTelemetry: a client's own metrics (KIP-714).

Behaviour
- What is refused, and with which error, stands in `broker.telemetry.telemetry`. What is taken is counted and dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import RequestContext


def handle(broker: Broker, context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Take the metrics."""
    broker.telemetry.push(broker.image, context, request, broker.loop.time() * 1000)
    return PushTelemetryResponse()
