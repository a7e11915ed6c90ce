"""Three brokers as processes, for applications: each can be killed and started again."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.cluster import Cluster

SETTINGS = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    # The open transactions of a killed application end soon after their timeout.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}


class Direct:
    """Gates that are the listeners themselves: clients and brokers connect without a proxy."""

    def gate(self, node: int, address: tuple[str, int]) -> int:
        return address[1]


def three_brokers(directory: Path) -> Cluster:
    """Return three brokers in `directory`, not started yet."""
    return Cluster(directory, Direct(), SETTINGS)
