"""The metrics of what clients push (KIP-714), after Kafka's MBean `kafka.server:type=client-metrics`.

Kafka counts what its plug-in is handed; here that is what was taken, with its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

from broker.monitoring.exposition import COUNTER, GAUGE, Column, Table

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.monitoring.telemetry import Telemetry

_PREFIX = "kafka_server_client_metrics_"


def _telemetry(broker: Broker) -> Iterator[tuple[str, Telemetry]]:
    yield "", broker.telemetry


def _counter(name: str, text: str, attribute: str) -> Column:
    return Column(_PREFIX + name, COUNTER, text, attrgetter(attribute))


TELEMETRY_TABLE = Table(
    _telemetry,
    (
        Column(_PREFIX + "instance_count", GAUGE, "Clients that were heard of.", lambda it: len(it.instances)),
        _counter("plugin_export_total", "Pushes of metrics that were taken.", "pushes"),
        _counter("plugin_error_total", "Pushes that could not be unpacked.", "invalid"),
        _counter("throttle_total", "Requests that came too early.", "throttled"),
        _counter("unknown_subscription_request_total", "Pushes under an old subscription.", "unknown_subscriptions"),
        Column("barnabas_client_metrics_bytes_total", COUNTER, "Bytes pushed.", attrgetter("pushed_bytes")),
    ),
)
