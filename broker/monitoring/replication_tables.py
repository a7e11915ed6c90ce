"""Metrics of ISRs, followers and elections, with the names of the JMX exporter's rules for Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

from broker.monitoring.exposition import COUNTER, GAUGE, Column, Table, labels

if TYPE_CHECKING:
    from broker.monitoring.elections import ElectionCounts
    from broker.monitoring.monitored import MonitoredNode
    from broker.monitoring.topic_stats import BrokerTopicMetrics
    from broker.replication.alter_partition_manager import AlterPartitionManager


def _isr_changes(node: MonitoredNode) -> Iterator[tuple[str, AlterPartitionManager]]:
    if node.broker is not None:
        yield "", node.broker.replication.isr.proposals


def _elections(node: MonitoredNode) -> Iterator[tuple[str, ElectionCounts]]:
    if node.shared.settings.is_controller and node.monitor is not None:
        yield "", node.monitor.elections


def _all_traffic(node: MonitoredNode) -> Iterator[tuple[str, BrokerTopicMetrics]]:
    if node.broker is not None:
        yield "", node.broker.replicas.traffic.total()


def _largest_lag(node: MonitoredNode) -> Iterator[tuple[str, int]]:
    if node.broker is not None:
        yield labels(clientId="Replica"), max((lag for _, _, lag in node.broker.replication.lags()), default=0)


def _lags(node: MonitoredNode) -> Iterator[tuple[str, int]]:
    if node.broker is not None:
        for leader, partition, lag in node.broker.replication.lags():
            client = f"ReplicaFetcherThread-0-{leader}"  # Kafka's name of the only fetcher thread of a leader
            yield labels(clientId=client, topic=partition.topic, partition=partition.index), lag


def _counter(name: str, text: str, attribute: str) -> Column:
    return Column(name, COUNTER, text, attrgetter(attribute))


def _gauge(name: str, text: str) -> Column:
    return Column(name, GAUGE, text, lambda row: row)


TABLES = (
    Table(
        _isr_changes,
        (
            _counter("kafka_server_replicamanager_isrshrinks_total", "ISR shrinks of partitions led here.", "shrinks"),
            _counter(
                "kafka_server_replicamanager_isrexpands_total", "ISR expansions of partitions led here.", "expands"
            ),
            _counter(
                "kafka_server_replicamanager_failedisrupdates_total",
                "ISR changes of partitions led here that the controller refused.",
                "failures",
            ),
        ),
    ),
    Table(
        _elections,
        (
            _counter(
                "kafka_controller_controllerstats_uncleanleaderelections_total",
                "Leaders elected from outside the ISR and the eligible leader replicas, which may lose records; "
                "counted on every controller.",
                "unclean",
            ),
            _counter(
                "kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total",
                "Leaders elected from the eligible leader replicas (KIP-966); counted on every controller.",
                "from_eligible",
            ),
        ),
    ),
    Table(
        _all_traffic,
        (
            _counter(
                "kafka_server_brokertopicmetrics_replicationbytesin_total",
                "Bytes of records fetched from leaders.",
                "replication_bytes_in",
            ),
            _counter(
                "kafka_server_brokertopicmetrics_replicationbytesout_total",
                "Bytes of records sent to followers.",
                "replication_bytes_out",
            ),
        ),
    ),
    Table(
        _largest_lag,
        (
            _gauge(
                "kafka_server_replicafetchermanager_maxlag",
                "The largest lag of a follower here, in records behind the leader's high watermark.",
            ),
        ),
        ("clientId",),
    ),
    Table(
        _lags,
        (
            _gauge(
                "kafka_server_fetcherlagmetrics_consumerlag",
                "Lag of a follower here, in records behind the leader's high watermark.",
            ),
        ),
        ("clientId", "topic", "partition"),
    ),
)
