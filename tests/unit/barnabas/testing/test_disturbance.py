from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer

from barnabas.testing import Cluster, ClusterError, WaitTimeout


def test_a_leader_that_is_cut_off_is_replaced_and_comes_back(three: Cluster) -> None:
    topic = three.topic(config={"min.insync.replicas": 2})
    topic.produce(["before"])
    leader = three.brokers[topic.leaders[0] - 1]
    with leader.network.cut_off():
        assert leader.network.is_isolated
        others = ",".join(broker.bootstrap for broker in three.brokers if broker is not leader)
        producer = Producer({"bootstrap.servers": others, "topic.metadata.refresh.interval.ms": 200, "log_level": 0})
        producer.produce(topic.name, b"meanwhile")
        assert producer.flush(60) == 0
        assert topic.leaders[0] != leader.node_id
        assert three.topic().produce(["a topic can be created without the broker"])
    assert leader.control.call("GET", "/v1/network") == {"clients": False, "brokers": []}
    assert [record.value for record in topic.expect(2, timeout=60)] == [b"before", b"meanwhile"]


def test_a_broker_is_cut_off_from_clients_alone(one: Cluster) -> None:
    topic = one.topic()
    producer = Producer({"bootstrap.servers": one.bootstrap, "log_level": 0})
    with one.brokers[0].network.cut_off(brokers=False):
        producer.produce(topic.name, b"a")
        with pytest.raises(WaitTimeout, match="1 records expected"):
            topic.expect(1, timeout=0.2)
    assert len(topic.expect(1, timeout=60)) == 1
    producer.flush()


def test_a_slow_disk_delays_what_it_is_slow_for(one: Cluster) -> None:
    topic, broker = one.topic(), one.brokers[0]
    with broker.disk.slow(0.2, ["write"]):  # without a count: a write of the metadata log could use it up
        assert broker.disk.fault["delay_ms"] == 200
        begun = time.monotonic()
        topic.produce(["a"])
        assert time.monotonic() - begun >= 0.2
    assert broker.disk.fault == {}


def test_a_full_disk_refuses_records_until_it_has_space(one: Cluster) -> None:
    topic = one.topic()
    producer = Producer({"bootstrap.servers": one.bootstrap, "log_level": 0})
    with one.brokers[0].disk.full():
        producer.produce(topic.name, b"a")
        with pytest.raises(WaitTimeout):
            topic.expect(1, timeout=0.2)
    assert len(topic.expect(1, timeout=60)) == 1
    producer.flush()


def test_a_broken_disk_ends_the_broker_and_a_start_repairs_it() -> None:
    with Cluster() as cluster:
        (broker,) = cluster.brokers
        topic = cluster.topic()
        topic.produce(["a"])
        with broker.disk.fail(["write"]), pytest.raises(ClusterError):
            cluster.topic()
        assert broker.until_ended()
        broker.start()
        assert len(topic.expect(1)) == 1


def test_a_paused_broker_cannot_be_disturbed(one: Cluster) -> None:
    (broker,) = one.brokers
    broker.pause()
    try:
        with pytest.raises(ClusterError, match="is paused; resume it first"):
            broker.disk.full()
    finally:
        broker.resume()
