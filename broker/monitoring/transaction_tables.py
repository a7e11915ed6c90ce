"""Metrics of the transactions that this broker coordinates or verifies, and of the loads of coordinators' partitions.

The names are those of Apache Kafka's `TransactionMarkerChannelManager`, `AddPartitionsToTxnManager`,
transaction-coordinator-metrics and group-coordinator-metrics. `barnabas_transactions` is our own. The cost of a scrape
does not depend on the number of transactional ids: shards count them by state as they change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from broker.monitoring.exposition import Column, column, counter, gauge, labels, table
from protocol.records.transactions import TRANSACTION_STATUS

if TYPE_CHECKING:
    from broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
    from broker.monitoring.monitored import MonitoredNode

_QUANTILES = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
_VERIFICATION = "kafka_server_addpartitionstotxnmanager_verification"
_FAILURES = "Partitions that a coordinator refused to verify or to add to their transaction."
_TIMES = "Milliseconds until a coordinator has verified the partitions of a transaction, or added them"
_MARKERS = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"


def _coordinator(node: MonitoredNode) -> TransactionCoordinator | None:
    return None if node.broker is None else node.broker.transaction_coordinator


def _coordinators(node: MonitoredNode) -> list[tuple[str, TransactionCoordinator]]:
    coordinator = _coordinator(node)
    return [] if coordinator is None else [("", coordinator)]


def _states(node: MonitoredNode) -> Iterator[tuple[str, int]]:
    coordinator = _coordinator(node)
    if coordinator is None:
        return
    shards = coordinator.runtime.active_shards()
    for status, name in TRANSACTION_STATUS.items():
        yield labels(state=name), sum(shard.state_counts[status] for shard in shards)


def _verification_times(node: MonitoredNode) -> Iterator[tuple[str, float]]:
    manager = None if node.broker is None else node.broker.add_partitions_to_txn_manager
    if node.broker is not None and manager is not None:
        found = manager.times.quantiles(node.broker.loop.time(), tuple(map(float, _QUANTILES)))
        for quantile, seconds in zip(_QUANTILES, found, strict=True):
            yield labels(quantile=quantile), round(seconds * 1000, 3)


def _group_loads(node: MonitoredNode) -> Iterable[tuple[str, list[float]]]:
    coordinator = None if node.broker is None else node.broker.group_coordinator
    return [] if coordinator is None else [("", coordinator.runtime.load_times())]


def _transaction_loads(node: MonitoredNode) -> Iterable[tuple[str, list[float]]]:
    coordinator = _coordinator(node)
    return [] if coordinator is None else [("", coordinator.runtime.load_times())]


def _load_times(kind: str, topic: str) -> tuple[Column, Column]:
    """Return the columns of a coordinator's loads; they have no sample without a load."""
    text = f"Milliseconds that loading a partition of {topic} took, of the last minute:"
    return (
        gauge(
            f"kafka_server_{kind}_coordinator_metrics_partition_load_time_max",
            f"{text} the longest.",
            lambda times: round(max(times) * 1000, 3) if times else None,
        ),
        gauge(
            f"kafka_server_{kind}_coordinator_metrics_partition_load_time_avg",
            f"{text} the average.",
            lambda times: round(sum(times) / len(times) * 1000, 3) if times else None,
        ),
    )


TABLES = (
    table(_group_loads, *_load_times("group", "__consumer_offsets")),
    table(_transaction_loads, *_load_times("transaction", "__transaction_state")),
    table("broker.add_partitions_to_txn_manager", counter(f"{_VERIFICATION}failurerate_total", _FAILURES, "failures")),
    table(
        _verification_times,
        column("summary", f"{_VERIFICATION}timems", f"{_TIMES}, of the last 60 to 120 s."),
        by="quantile",
    ),
    table(
        "broker.add_partitions_to_txn_manager.times",
        column("", f"{_VERIFICATION}timems_count", "Verifications with a result.", "count"),
        column("", f"{_VERIFICATION}timems_sum", f"{_TIMES}, summed.", lambda it: round(it.total_s * 1000, 3)),
    ),
    table(
        _states,
        gauge("barnabas_transactions", "Transactional ids by the state of their latest transaction."),
        by="state",
    ),
    table(
        _coordinators,
        gauge(
            f"{_MARKERS}unknowndestinationqueuesize",
            "Transactions whose markers wait for partitions without a leader.",
            "markers.unknown_destination_count",
        ),
        gauge(
            f"{_MARKERS}logappendretryqueuesize",
            "Transactions with all markers whose completion could not be written yet.",
            lambda it: sum(len(shard.append_retries) for shard in it.runtime.active_shards()),
        ),
    ),
)
