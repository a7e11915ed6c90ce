"""PushTelemetry: a client pushes its metrics (KIP-714).

Behaviour
- Accepted metrics are counted and dropped. `broker.monitoring.telemetry` has the checks and their errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.node import Node


def handle(broker: Node, context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Check and count the metrics."""
    broker.telemetry.push(broker.image, context, request, broker.loop.time() * 1000)
    return PushTelemetryResponse()
