"""Replication metrics of a single broker; `tests/unit/broker/replication` covers several brokers."""

from __future__ import annotations

import pytest

from broker.monitoring import replication_tables
from controller.commands.controller_result import ControllerResult
from controller.image import NO_LEADER
from protocol.records.metadata import PartitionChangeRecord
from tests.unit.broker.monitoring.conftest import Monitored
from tests.unit.broker.replica_cluster import ReplicaCluster


@pytest.mark.parametrize("name", ["isrshrinks_total", "isrexpands_total", "failedisrupdates_total"])
def test_a_broker_without_followers_has_changed_no_isr(monitored: Monitored, name: str) -> None:
    assert monitored.value(f"kafka_server_replicamanager_{name}") == 0


def test_broker_without_follower_replicas_has_no_lag(monitored: Monitored) -> None:
    assert monitored.value("kafka_server_replicafetchermanager_maxlag", clientId="Replica") == 0


def test_each_follower_replica_has_lag_and_leader(cluster: ReplicaCluster) -> None:
    cluster.place(1, 2, isr=(1,))
    cluster.append(b"v")
    cluster.let_pass(1)
    followed = cluster[2].partition("t")
    assert list(cluster[2].replication.lags()) == [(1, followed, 0)]
    assert list(cluster[1].replication.lags()) == []


def test_an_unclean_election_is_counted_when_the_controller_applies_it(monitored: Monitored) -> None:
    name = "kafka_controller_controllerstats_uncleanleaderelections_total"
    monitored.wait(monitored.node.create_topic("t", 1))
    topic = monitored.broker.image.topic("t")
    assert topic is not None
    for fields, count in (({"isr": [], "leader": NO_LEADER}, 0), ({"isr": [1], "leader": 1}, 1)):
        record = PartitionChangeRecord(topic_id=topic.topic_id, partition_id=0, **fields)  # type: ignore[arg-type]  # keywords of several types
        monitored.wait(monitored.broker.raft.submit(lambda _, it=record: ControllerResult((it,), None)))  # type: ignore[misc]  # a lambda with a default has no inferred type
        assert monitored.value(name) == count


def test_counter_names_end_in_total() -> None:
    columns = [column for table in replication_tables.TABLES for column in table.columns]
    assert {column.name for column in columns if column.type == "counter"} == {
        column.name for column in columns if column.name.endswith("_total")
    }
