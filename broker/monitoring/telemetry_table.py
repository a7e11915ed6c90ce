"""Metrics of client telemetry (KIP-714), after Kafka's MBean `kafka.server:type=client-metrics`.

Kafka counts the exports to its plug-in; here they are the accepted pushes, and their bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

from broker.monitoring.exposition import COUNTER, GAUGE, Column, Table

if TYPE_CHECKING:
    from broker.monitoring.monitored import MonitoredNode
    from broker.monitoring.telemetry import Telemetry

_PREFIX = "kafka_server_client_metrics_"


def _telemetry(node: MonitoredNode) -> Iterator[tuple[str, Telemetry]]:
    if node.broker is not None:
        yield "", node.broker.telemetry


def _counter(name: str, text: str, attribute: str) -> Column:
    return Column(_PREFIX + name, COUNTER, text, attrgetter(attribute))


TELEMETRY_TABLE = Table(
    _telemetry,
    (
        Column(_PREFIX + "instance_count", GAUGE, "Client instances.", lambda it: len(it.instances)),
        _counter("plugin_export_total", "Accepted pushes of metrics.", "pushes"),
        _counter("plugin_error_total", "Pushes that could not be decompressed.", "invalid"),
        _counter("throttle_total", "Requests before the push interval.", "throttled"),
        _counter(
            "unknown_subscription_request_total", "Pushes with an outdated subscription id.", "unknown_subscriptions"
        ),
        Column("barnabas_client_metrics_bytes_total", COUNTER, "Bytes pushed.", attrgetter("pushed_bytes")),
    ),
)
