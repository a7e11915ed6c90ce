"""Metrics of ISRs, followers and elections, with the names of the JMX exporter's rules for Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.monitoring.exposition import counter, gauge, labels, table

if TYPE_CHECKING:
    from broker.monitoring.elections import ElectionCounts
    from broker.monitoring.monitored import MonitoredNode
    from broker.monitoring.topic_stats import BrokerTopicMetrics


def _elections(node: MonitoredNode) -> Iterator[tuple[str, ElectionCounts]]:
    if node.shared.settings.is_controller and node.monitor is not None:
        yield "", node.monitor.elections


def _all_traffic(node: MonitoredNode) -> Iterator[tuple[str, BrokerTopicMetrics]]:
    if node.broker is not None:
        yield "", node.broker.replicas.topic_stats.total()


def _largest_lag(node: MonitoredNode) -> Iterator[tuple[str, int]]:
    if node.broker is not None:
        yield labels(clientId="Replica"), max((lag for _, _, lag in node.broker.replication.lags()), default=0)


def _lags(node: MonitoredNode) -> Iterator[tuple[str, int]]:
    if node.broker is not None:
        for leader, partition, lag in node.broker.replication.lags():
            client = f"ReplicaFetcherThread-0-{leader}"  # Kafka's name of the only fetcher thread of a leader
            yield labels(clientId=client, topic=partition.topic, partition=partition.index), lag


TABLES = (
    table(
        "broker.replication.isr.proposals",
        counter("kafka_server_replicamanager_isrshrinks_total", "ISR shrinks of partitions led here.", "shrinks"),
        counter("kafka_server_replicamanager_isrexpands_total", "ISR expansions of partitions led here.", "expands"),
        counter(
            "kafka_server_replicamanager_failedisrupdates_total",
            "ISR changes of partitions led here that the controller refused.",
            "failures",
        ),
    ),
    table(
        _elections,
        counter(
            "kafka_controller_controllerstats_uncleanleaderelections_total",
            "Leaders elected from outside the ISR and the eligible leader replicas, which may lose records; "
            "counted on every controller.",
            "unclean",
        ),
        counter(
            "kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total",
            "Leaders elected from the eligible leader replicas (KIP-966); counted on every controller.",
            "from_eligible",
        ),
    ),
    table(
        _all_traffic,
        counter(
            "kafka_server_brokertopicmetrics_replicationbytesin_total",
            "Bytes of records fetched from leaders.",
            "replication_bytes_in",
        ),
        counter(
            "kafka_server_brokertopicmetrics_replicationbytesout_total",
            "Bytes of records sent to followers.",
            "replication_bytes_out",
        ),
    ),
    table(
        _largest_lag,
        gauge(
            "kafka_server_replicafetchermanager_maxlag",
            "The largest lag of a follower here, in records behind the leader's high watermark.",
        ),
        by="clientId",
    ),
    table(
        _lags,
        gauge(
            "kafka_server_fetcherlagmetrics_consumerlag",
            "Lag of a follower here, in records behind the leader's high watermark.",
        ),
        by="clientId topic partition",
    ),
)
