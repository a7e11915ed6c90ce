"""A cluster of three whose brokers are cut off from each other, and whose leaders are moved."""

from __future__ import annotations

import urllib.error
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.clients.controlled_cluster import IDS, ControlledCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlledCluster]:
    settings: dict[str, Any] = {
        "broker_session_timeout_ms": 1500,
        "broker_heartbeat_interval_ms": 300,
        "replica_lag_time_max_ms": 1500,
    }
    with ControlledCluster(tmp_path_factory.mktemp("cuts"), **settings) as running:
        yield running


def partition(cluster: ControlledCluster, topic: str, seen_by: int) -> Any:
    return cluster.control[seen_by].ask("GET", f"/v1/topics/{topic}")["partitions"][0]


def produce(cluster: ControlledCluster, topic: str, value: bytes) -> None:
    errors: list[Any] = []
    settings = {"bootstrap.servers": cluster.bootstrap, "topic.metadata.refresh.interval.ms": 200, "log_level": 0}
    producer = Producer(settings | {"acks": "all"})
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None]


def await_cluster(cluster: ControlledCluster, seen_by: int, **body: Any) -> None:
    waited = cluster.control[seen_by].post("/v1/wait/cluster", timeout_ms=30_000, **body)
    assert waited["met"], waited["message"]


def test_a_leader_moves_to_the_broker_that_is_named(cluster: ControlledCluster) -> None:
    cluster.control[1].post("/v1/topics", topic="moved")
    produce(cluster, "moved", b"before")
    target = next(one for one in IDS if one != partition(cluster, "moved", 1)["leader"])
    controller = cluster.control[1].ask("GET", "/v1")["controller"]
    other = next(one for one in IDS if one != controller)
    with pytest.raises(urllib.error.HTTPError) as refused:
        cluster.control[other].post("/v1/leaders", topic="moved", partition=0, leader=target)
    with refused.value as response:
        assert response.status == 421
    moved = cluster.control[controller].post("/v1/leaders", topic="moved", partition=0, leader=target)
    assert moved["leader"] == target
    produce(cluster, "moved", b"after")
    assert cluster.control[target].values("moved") == ["before", "after"]


def test_a_broker_that_is_cut_off_leaves_the_isr_and_comes_back(cluster: ControlledCluster) -> None:
    cluster.control[1].post("/v1/topics", topic="cut")
    produce(cluster, "cut", b"before")
    cut_off = partition(cluster, "cut", 1)["leader"]
    others = [one for one in IDS if one != cut_off]
    # From clients too: they would believe what it knows, and retry there until their messages expire.
    cluster.control[cut_off].ask("PUT", "/v1/network", brokers=others, clients=True)
    produce(cluster, "cut", b"meanwhile")
    found = partition(cluster, "cut", others[0])
    assert found["leader"] != cut_off
    assert cut_off not in found["isr"]
    assert partition(cluster, "cut", cut_off)["leader"] == cut_off, "it knows of nothing"
    cluster.control[cut_off].ask("DELETE", "/v1/network")
    await_cluster(cluster, others[0], brokers=3, isr={"cut": 3})
    leader = partition(cluster, "cut", others[0])["leader"]
    await_cluster(cluster, leader, committed=True)
    assert cluster.control[leader].values("cut") == ["before", "meanwhile"]


def test_the_active_controller_is_replaced_while_it_is_cut_off(cluster: ControlledCluster) -> None:
    controller = cluster.control[1].ask("GET", "/v1")["controller"]
    others = [one for one in IDS if one != controller]
    cluster.control[controller].ask("PUT", "/v1/network", brokers=others)
    cluster.control[others[0]].post("/v1/topics", topic="new", replication_factor=2, timeout_ms=30_000)
    assert cluster.control[others[0]].ask("GET", "/v1")["controller"] in others
    cluster.control[controller].ask("DELETE", "/v1/network")
    waited = cluster.control[controller].post("/v1/wait/topic", topic="new", timeout_ms=30_000)
    assert waited["met"], waited["message"]
