"""Metrics of the partitions with a replica here: those of Apache Kafka's logs and leaders, and those of kafka_exporter.

kafka_exporter is a separate process that queries a cluster as a client; dashboards made for it work here without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.monitoring.exposition import gauge, labels, table

if TYPE_CHECKING:
    from broker.monitoring.monitored import MonitoredNode
    from broker.replication.partition import Partition
    from controller.image import BrokerImage, TopicImage


def _partitions(node: MonitoredNode) -> Iterator[tuple[str, Partition]]:
    for partition in [] if node.broker is None else list(node.broker.replicas.partitions):
        yield labels(topic=partition.topic, partition=partition.index), partition


def _led(node: MonitoredNode) -> Iterator[tuple[str, Partition]]:
    return (row for row in _partitions(node) if row[1].is_leader)


def _topics(node: MonitoredNode) -> Iterator[tuple[str, TopicImage]]:
    for topic in node.shared.raft.image.topics():
        yield labels(topic=topic.name), topic


def _cluster(node: MonitoredNode) -> Iterator[tuple[str, int]]:
    yield "", sum(broker.active for broker in node.shared.raft.image.brokers.values())


def _brokers(node: MonitoredNode) -> Iterator[tuple[str, BrokerImage]]:
    for broker_id, broker in sorted(node.shared.raft.image.brokers.items()):
        for endpoint in list(broker.endpoints.values())[:1]:
            yield labels(id=broker_id, address=f"{endpoint.host}:{endpoint.port}"), broker


TABLES = (
    table(
        _partitions,
        gauge("kafka_log_log_size", "Bytes of all batches.", "log.size_bytes"),
        gauge("kafka_log_log_logstartoffset", "The log start offset.", "log.log_start_offset"),
        gauge("kafka_log_log_logendoffset", "The log end offset.", "log.log_end_offset"),
        gauge("kafka_log_log_numlogsegments", "Segments.", lambda it: len(it.log.segments)),
        by="topic partition",
    ),
    table(
        _led,
        gauge("kafka_cluster_partition_replicascount", "Replicas.", lambda it: len(it.replicas)),
        gauge("kafka_cluster_partition_insyncreplicascount", "Replicas in the ISR.", lambda it: len(it.isr)),
        gauge(
            "kafka_cluster_partition_underreplicated",
            "1 if replicas are outside the ISR.",
            lambda it: int(len(it.isr) < len(it.replicas)),
        ),
        gauge(
            "kafka_cluster_partition_underminisr",
            "1 if the ISR has fewer replicas than min.insync.replicas.",
            lambda it: int(len(it.isr) < it.min_isr),
        ),
        gauge(
            "kafka_cluster_partition_atminisr",
            "1 if the ISR has exactly min.insync.replicas replicas.",
            lambda it: int(len(it.isr) == it.min_isr),
        ),
        gauge(
            "kafka_cluster_partition_laststableoffsetlag",
            "Records between the last stable offset and the high watermark.",
            lambda it: it.high_watermark - it.log.last_stable_offset,
        ),
        gauge(
            "kafka_topic_partition_current_offset",
            "The high watermark: the offset after the last record that consumers may read.",
            "high_watermark",
        ),
        gauge("kafka_topic_partition_oldest_offset", "The log start offset.", "log.log_start_offset"),
        gauge("kafka_topic_partition_leader", "Broker id of the leader.", "leader"),
        gauge(
            "kafka_topic_partition_leader_is_preferred",
            "1 if the preferred replica leads.",
            lambda it: int(it.leader == it.replicas[0]),
        ),
        gauge("kafka_topic_partition_replicas", "Replicas.", lambda it: len(it.replicas)),
        gauge("kafka_topic_partition_in_sync_replica", "Replicas in the ISR.", lambda it: len(it.isr)),
        gauge(
            "kafka_topic_partition_under_replicated_partition",
            "1 if replicas are outside the ISR.",
            lambda it: int(len(it.isr) < len(it.replicas)),
        ),
        by="topic partition",
    ),
    table(_topics, gauge("kafka_topic_partitions", "Partitions.", lambda it: len(it.partitions)), by="topic"),
    table(_cluster, gauge("kafka_brokers", "Brokers that are neither fenced nor in controlled shutdown.")),
    table(_brokers, gauge("kafka_broker_info", "A broker and its address; always 1.", lambda _: 1), by="id address"),
)
