"""Time that a test advances, on a cluster: clients' state ages, and the cluster stays together."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.clients.controlled_cluster import IDS, ControlledCluster

HOUR_MS = 3_600_000
UNREST = re.compile(r"fenc|elect|ISR|lost|timed? ?out|Traceback|ERROR", re.IGNORECASE)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlledCluster]:
    with ControlledCluster(tmp_path_factory.mktemp("clock")) as running:
        yield running


def advance(cluster: ControlledCluster, ms: int, *, together: bool) -> list[float]:
    """Advance all brokers; return how long each took in seconds."""

    def advance_one(node_id: int) -> float:
        begun = time.monotonic()
        cluster.control[node_id].post("/v1/clock/advance", ms=ms)
        return time.monotonic() - begun

    if not together:
        return list(map(advance_one, IDS))
    with ThreadPoolExecutor(len(IDS)) as pool:
        return list(pool.map(advance_one, IDS))


def epochs(cluster: ControlledCluster) -> Any:
    """Return what changes with each election, fencing or registration."""
    found = cluster.control[1].ask("GET", "/v1")
    topic = cluster.control[1].ask("GET", "/v1/topics/t")
    brokers = sorted((broker["node_id"], broker["epoch"], broker["active"]) for broker in found["brokers"])
    partitions = [(one["leader"], one["leader_epoch"], one["isr"]) for one in topic["partitions"]]
    return found["controller"], brokers, partitions


def groups(cluster: ControlledCluster) -> list[str]:
    return [one["group"] for node_id in IDS for one in cluster.control[node_id].ask("GET", "/v1/groups")["groups"]]


@pytest.mark.parametrize("together", [False, True])
def test_a_cluster_stays_together_while_its_clocks_advance(cluster: ControlledCluster, together: bool) -> None:
    if not together:
        cluster.control[1].post("/v1/topics", topic="t", partitions=3)
    before, logged = epochs(cluster), len(cluster.log())
    advance(cluster, 25 * HOUR_MS, together=together)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for partition in range(3):
        producer.produce("t", b"v", partition=partition)
    assert producer.flush(30) == 0
    assert epochs(cluster) == before
    assert [line for line in cluster.log()[logged:].splitlines() if UNREST.search(line)] == []


def test_records_sessions_and_offsets_age(cluster: ControlledCluster) -> None:
    control = cluster.control[1]
    control.post("/v1/topics", topic="short", configs=[{"name": "retention.ms", "value": str(24 * HOUR_MS)}])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    now_ms = control.ask("GET", "/v1/clock")["wall_ms"]
    producer.produce("short", b"v", timestamp=now_ms)
    assert producer.flush(30) == 0
    settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "log_level": 0}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["short"])
    message = consumer.poll(30)
    assert message is not None
    assert message.value() == b"v"
    consumer.commit(asynchronous=False)
    consumer.close()
    advance(cluster, 23 * HOUR_MS, together=True)
    leader = cluster.control[control.ask("GET", "/v1/topics/short")["partitions"][0]["leader"]]
    assert leader.ask("GET", "/v1/topics/short")["partitions"][0]["offsets"]["log_start"] == 0
    advance(cluster, 2 * HOUR_MS, together=True)
    assert leader.ask("GET", "/v1/topics/short")["partitions"][0]["offsets"]["log_start"] == 1
    assert groups(cluster) == ["g"]
    advance(cluster, 7 * 24 * HOUR_MS, together=True)
    assert groups(cluster) == []
