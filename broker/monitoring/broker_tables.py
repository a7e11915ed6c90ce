"""Metrics of the broker, with the names of the JMX exporter's rules for Apache Kafka.

Names follow from Kafka's MBeans: `kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t` is
`kafka_server_brokertopicmetrics_messagesin_total{topic="t"}`. Metrics without a counterpart in one event loop (queues
between threads, the JVM) are missing. ISRs, followers and elections are in `replication_tables`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from operator import itemgetter, methodcaller
from typing import TYPE_CHECKING, Any

from broker.monitoring.exposition import Column, column, counter, gauge, labels, table
from broker.monitoring.request_errors import RequestErrors
from broker.monitoring.request_times import Times
from broker.monitoring.topic_stats import BrokerTopicMetrics
from protocol.api import APIS, ApiKey
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.monitoring.monitored import MonitoredNode
    from broker.replication.partition import Partition
    from broker.replication.replica_manager import ReplicaManager
    from broker.security.authentication_log import AuthenticationLog
    from controller.image import MetadataImage

_STATES = {"starting": 1, "serving": 3, "stopping": 7}
_CLIENT_METRICS = "kafka_server_client_metrics_"
_QUANTILES = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")


def _info(node: MonitoredNode) -> Iterator[tuple[str, int]]:
    shared = node.shared
    yield labels(version=shared.version, node_id=shared.settings.node_id, cluster_id=shared.cluster_id), 1


def _traffic(node: MonitoredNode) -> Iterator[tuple[str, BrokerTopicMetrics]]:
    if node.broker is not None:
        topic_stats = node.broker.replicas.topic_stats
        yield "", topic_stats.total()
        yield from ((labels(topic=topic), counted) for topic, counted in sorted(topic_stats.topics.items()))


def _led(replicas: ReplicaManager) -> list[Partition]:
    return [partition for partition in replicas.partitions if partition.is_leader]


def _global_partitions(image: MetadataImage) -> Iterator[Any]:
    return (state for topic in image.topics() for state in topic.partitions.values())


def _times(node: MonitoredNode) -> dict[int, Times]:
    return node.monitor.times if node.monitor else {}


def _requests(node: MonitoredNode) -> Iterator[tuple[str, Times]]:
    for key, times in sorted(_times(node).items()):
        yield from ((labels(request=name), times) for name in _names(key))


def _names(key: int) -> tuple[str, ...]:
    """Return the names under which Kafka counts an API: Fetch is also counted as FetchConsumer."""
    return ("Fetch", "FetchConsumer") if key == ApiKey.FETCH else (APIS[ApiKey(key)].name,)


def _request_versions(node: MonitoredNode) -> Iterator[tuple[str, int]]:
    for key, times in sorted(_times(node).items()):
        for version, count in enumerate(times.versions):
            if count:
                yield from ((labels(request=name, version=version), count) for name in _names(key))


def _request_errors(node: MonitoredNode) -> Iterator[tuple[str, int]]:
    """Yield the number of responses without errors of each API, and the number of each error."""
    errors = node.monitor.errors if node.monitor else RequestErrors()
    for key, times in sorted(_times(node).items()):
        yield labels(request=APIS[ApiKey(key)].name, error=ErrorCode.NONE.name), times.count - errors.failed[key]
    for (key, code), count in sorted(errors.codes.items()):
        yield labels(request=APIS[ApiKey(key)].name, error=_error_name(code)), count


def _error_name(code: int) -> str:
    """Return the name of an error code; as in Kafka, UNKNOWN_SERVER_ERROR for an unknown one of a newer controller."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR.name


def _request_quantiles(node: MonitoredNode) -> Iterator[tuple[str, float]]:
    now = node.monitor.clock() if node.monitor else 0.0
    for key, times in sorted(_times(node).items()):
        found = times.quantiles(now, tuple(map(float, _QUANTILES)))
        for name in _names(key):
            for quantile, seconds in zip(_QUANTILES, found, strict=True):
                yield labels(request=name, quantile=quantile), round(seconds * 1000, 3)


def _connections(node: MonitoredNode) -> Iterator[tuple[str, int]]:
    for listener, count in sorted(node.shared.server.counts.by_listener.items()):
        yield labels(listener=listener, networkProcessor=0), count


def _delays(node: MonitoredNode) -> Iterator[tuple[str, float]]:
    rates = node.shared.server.connection_rates
    if rates is not None:
        for listener in sorted(rates.throttle_times):
            yield labels(listener=listener), round(rates.average_delay_ms(listener), 3)


def _authentications(node: MonitoredNode) -> Iterator[tuple[str, AuthenticationLog]]:
    for listener, log in sorted(node.shared.security.authentications.items()):
        yield labels(listener=listener, networkProcessor=0), log


def _authentication_rates(node: MonitoredNode) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield the rates of each listener: successful, failed, and the same of re-authentications."""
    now_ms = 1000 * node.shared.loop.time()
    for where, log in _authentications(node):
        rates = (log.successful_rate, log.failed_rate, log.successful_again_rate, log.failed_again_rate)
        yield where, tuple(round(rate.per_second(now_ms), 3) for rate in rates)


def _purgatories(node: MonitoredNode) -> Iterator[tuple[str, int]]:
    if node.broker is None:
        return
    waiting = Counter(operation.kind for operation in node.broker.purgatory.waiting())
    for kind in ("Fetch", "Produce", "DeleteRecords"):
        yield labels(delayedOperation=kind), waiting[kind]


def _directories(node: MonitoredNode) -> Iterator[tuple[str, int]]:
    for directory in node.shared.logs.directories:
        yield labels(logDirectory=directory.path), int(directory.failure is not None)


def _quorum_state(node: MonitoredNode) -> Iterator[tuple[str, int]]:
    yield labels(current_state=node.shared.raft.role.value), 1


def _pushes(name: str, text: str, attribute: str) -> Column:
    """Return a counter of Kafka's MBean `client-metrics`; its exports are the accepted pushes here."""
    return counter(_CLIENT_METRICS + name, text, attribute)


def _per_topic(name: str, attribute: str, text: str) -> Column:
    return counter(f"kafka_server_brokertopicmetrics_{name}_total", text, attribute)


TABLES = (
    table(
        "broker.log_cleaner",
        gauge(
            "kafka_log_logcleanermanager_max_dirty_percent",
            "The largest dirty part of a compacted log, 0 to 100 %, at the last check.",
            "max_dirty_percent",
        ),
        gauge(
            "kafka_log_logcleanermanager_uncleanable_partitions_count",
            "Logs that are no longer compacted because a pass over them failed.",
            "uncleanable_count",
        ),
        counter("barnabas_compaction_passes_total", "Completed compaction passes over logs.", "passes"),
        counter("barnabas_compaction_read_bytes_total", "Bytes read by compaction.", "bytes_read"),
        counter("barnabas_compaction_written_bytes_total", "Bytes written by compaction.", "bytes_written"),
    ),
    table(
        _info, gauge("barnabas_info", "Version and identity of this broker; always 1."), by="version node_id cluster_id"
    ),
    table(
        "shared",
        gauge(
            "kafka_server_kafkaserver_brokerstate",
            "3 while the broker serves, 7 while it stops.",
            lambda it: _STATES[it.phase],
        ),
        gauge(
            "kafka_controller_kafkacontroller_activecontrollercount",
            "1 on the node that leads the quorum.",
            lambda it: int(it.raft.leads),
        ),
        gauge(
            "kafka_network_socketserver_memorypoolused",
            "Bytes of requests that are received in part or waiting.",
            lambda it: it.server.request_memory.used_bytes + it.server.unauthenticated_memory.used_bytes,
        ),
        gauge(
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Data directories that failed.",
            lambda it: sum(directory.failure is not None for directory in it.logs.directories),
        ),
        counter("barnabas_connections_accepted_total", "Accepted connections.", "metrics.connections_accepted"),
        counter("barnabas_connections_refused_total", "Connections refused by a limit.", "metrics.connections_refused"),
        counter("barnabas_received_bytes_total", "Bytes received from clients.", "metrics.received_bytes"),
        counter("barnabas_sent_bytes_total", "Bytes sent to clients.", "metrics.sent_bytes"),
        counter(
            "barnabas_handler_failures_total",
            "Requests answered UNKNOWN_SERVER_ERROR, each with a traceback in the log.",
            "metrics.handler_failures",
        ),
    ),
    table(
        "broker.replicas",
        gauge("kafka_server_replicamanager_partitioncount", "Replicas.", lambda it: len(it.partitions)),
        gauge("kafka_server_replicamanager_leadercount", "Partitions led here.", lambda it: len(_led(it))),
        gauge(
            "kafka_server_replicamanager_underreplicatedpartitions",
            "Partitions led here with replicas outside the ISR.",
            lambda it: sum(len(led.isr) < len(led.replicas) for led in _led(it)),
        ),
        gauge(
            "kafka_server_replicamanager_underminisrpartitioncount",
            "Partitions led here with fewer replicas in the ISR than min.insync.replicas.",
            lambda it: sum(len(led.isr) < led.min_isr for led in _led(it)),
        ),
        gauge(
            "kafka_server_replicamanager_atminisrpartitioncount",
            "Partitions led here with exactly min.insync.replicas replicas in the ISR.",
            lambda it: sum(len(led.isr) == led.min_isr for led in _led(it)),
        ),
        gauge(
            "kafka_server_replicamanager_offlinereplicacount",
            "Replicas assigned here that are offline: their directory failed, or their log cannot be opened.",
            "offline_count",
        ),
        gauge(
            "kafka_server_fetchsessioncache_numincrementalfetchsessions",
            "Incremental fetch sessions.",
            lambda it: len(it.fetch_sessions),
        ),
        gauge(
            "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
            "Partitions in incremental fetch sessions.",
            "fetch_sessions.partition_count",
        ),
    ),
    table(
        "shared.raft.image",
        gauge("kafka_controller_kafkacontroller_globaltopiccount", "Topics.", lambda it: len(it.topics())),
        gauge(
            "kafka_controller_kafkacontroller_globalpartitioncount",
            "Partitions.",
            lambda it: sum(len(topic.partitions) for topic in it.topics()),
        ),
        gauge(
            "kafka_controller_kafkacontroller_offlinepartitionscount",
            "Partitions without a leader.",
            lambda it: sum(state.leader < 0 for state in _global_partitions(it)),
        ),
        gauge(
            "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
            "Partitions that are not led by their first replica.",
            lambda it: sum(state.leader != state.replicas[0] for state in _global_partitions(it)),
        ),
        gauge(
            "kafka_controller_kafkacontroller_activebrokercount",
            "Brokers that are neither fenced nor in controlled shutdown.",
            lambda it: sum(node.active for node in it.brokers.values()),
        ),
        gauge(
            "kafka_controller_kafkacontroller_fencedbrokercount",
            "Registered brokers that are fenced or in controlled shutdown.",
            lambda it: sum(not node.active for node in it.brokers.values()),
        ),
        gauge(
            "kafka_server_brokermetadatametrics_last_applied_record_offset",
            "Offset of the last applied record of the metadata log.",
            "offset",
        ),
    ),
    table(
        "monitor",
        gauge(
            "kafka_network_socketserver_networkprocessoravgidle_percent",
            "Part of the time since the last scrape, 0 to 1, in which the process used no CPU.",
            methodcaller("idle_ratio"),
        ),
        gauge(
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
            "The same: one loop does what Kafka's network and request threads do.",
            methodcaller("idle_ratio"),
        ),
    ),
    table(
        _traffic,
        _per_topic("messagesin", "messages_in", "Records appended; without a topic, of all topics."),
        _per_topic("bytesin", "bytes_in", "Bytes appended."),
        _per_topic("bytesout", "bytes_out", "Bytes of records sent to consumers."),
        _per_topic("bytesrejected", "bytes_rejected", "Bytes of batches refused as too large."),
        _per_topic("totalproducerequests", "produces", "Produce requests, counted per partition."),
        _per_topic("totalfetchrequests", "fetches", "Fetch requests, counted per partition read."),
        _per_topic("failedproducerequests", "failed_produces", "Produce requests refused for their batch."),
        _per_topic("failedfetchrequests", "failed_fetches", "Fetch requests that failed in the broker."),
        by="topic",
    ),
    table(
        _request_versions,
        counter("kafka_network_requestmetrics_requests_total", "Requests by API and version."),
        by="request version",
    ),
    table(
        _request_errors,
        counter(
            "kafka_network_requestmetrics_errors_total",
            "Errors in responses by API and code, one per partition; NONE counts responses without errors.",
        ),
        by="request error",
    ),
    table(
        _request_quantiles,
        column(
            "summary",
            "kafka_network_requestmetrics_totaltimems",
            "Milliseconds from request to response, waiting for data included; of the last 60 to 120 s.",
        ),
        by="request quantile",
    ),
    table(
        _requests,
        column("", "kafka_network_requestmetrics_totaltimems_count", "Requests with a response.", "count"),
        column(
            "",
            "kafka_network_requestmetrics_totaltimems_sum",
            "Milliseconds from request to response, summed.",
            lambda times: round(times.total_s * 1000, 3),
        ),
        by="request",
    ),
    table(
        _connections,
        gauge("kafka_server_socket_server_metrics_connection_count", "Open connections."),
        by="listener networkProcessor",
    ),
    table(
        _delays,
        gauge(
            "kafka_server_socket_server_metrics_connection_accept_throttle_time",
            "Milliseconds for which a connection above a creation rate is delayed, on average over the quotas' window.",
        ),
        by="listener",
    ),
    table(
        _authentications,
        counter(
            "kafka_server_socket_server_metrics_successful_authentication_total",
            "Clients that authenticated with SASL.",
            "successful",
        ),
        counter(
            "kafka_server_socket_server_metrics_successful_authentication_no_reauth_total",
            "Those of them that do not support re-authentication (KIP-368).",
            "successful_only_once",
        ),
        counter(
            "kafka_server_socket_server_metrics_failed_authentication_total",
            "Refused authentications with SASL.",
            "failed",
        ),
        counter(
            "kafka_server_socket_server_metrics_successful_reauthentication_total",
            "Re-authentications (KIP-368).",
            "successful_again",
        ),
        counter(
            "kafka_server_socket_server_metrics_failed_reauthentication_total",
            "Refused re-authentications.",
            "failed_again",
        ),
        counter(
            "kafka_server_socket_server_metrics_expired_connections_killed_count",
            "Connections closed because the client did not authenticate again.",
            "expired",
        ),
        by="listener networkProcessor",
    ),
    table(
        _authentication_rates,
        gauge(
            "kafka_server_socket_server_metrics_successful_authentication_rate",
            "Clients that authenticated with SASL, per second.",
            itemgetter(0),
        ),
        gauge(
            "kafka_server_socket_server_metrics_failed_authentication_rate",
            "Refused authentications with SASL, per second.",
            itemgetter(1),
        ),
        gauge(
            "kafka_server_socket_server_metrics_successful_reauthentication_rate",
            "Re-authentications per second (KIP-368).",
            itemgetter(2),
        ),
        gauge(
            "kafka_server_socket_server_metrics_failed_reauthentication_rate",
            "Refused re-authentications per second.",
            itemgetter(3),
        ),
        by="listener networkProcessor",
    ),
    table(
        _purgatories,
        gauge("kafka_server_delayedoperationpurgatory_purgatorysize", "Delayed operations."),
        by="delayedOperation",
    ),
    table(
        _directories,
        gauge("kafka_log_logmanager_logdirectoryoffline", "1 if the data directory failed."),
        by="logDirectory",
    ),
    table(
        "shared.raft",
        gauge("kafka_server_raftmetrics_current_leader", "Leader of the quorum, -1 if unknown.", "leader_id"),
        gauge("kafka_server_raftmetrics_current_epoch", "The quorum's epoch.", "epoch"),
        gauge("kafka_server_raftmetrics_high_watermark", "End offset of the committed metadata.", "high_watermark"),
    ),
    table(
        _quorum_state,
        gauge(
            "kafka_server_raftmetrics_current_state",
            "1 for the state of this node: leader, follower, candidate, observer and so on.",
        ),
        by="current_state",
    ),
    table(
        "broker.telemetry",
        gauge(_CLIENT_METRICS + "instance_count", "Client instances.", lambda it: len(it.instances)),
        _pushes("plugin_export_total", "Accepted pushes of metrics.", "pushes"),
        _pushes("plugin_error_total", "Pushes that could not be decompressed.", "invalid"),
        _pushes("throttle_total", "Requests before the push interval.", "throttled"),
        _pushes(
            "unknown_subscription_request_total", "Pushes with an outdated subscription id.", "unknown_subscriptions"
        ),
        counter("barnabas_client_metrics_bytes_total", "Bytes pushed.", "pushed_bytes"),
    ),
)
