from __future__ import annotations

import os
import signal
import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from barnabas.testing import Cluster, ClusterError, WaitTimeout


def connect(address: str) -> None:
    host, _, port = address.rpartition(":")
    socket.create_connection((host, int(port))).close()


def test_a_broker_keeps_its_address_and_data_when_it_is_killed_and_started() -> None:
    with Cluster() as cluster:
        (broker,) = cluster.brokers
        topic, address, control, pid = cluster.topic(), broker.bootstrap, broker.control_url, broker.pid
        topic.produce(["a"])
        broker.kill()
        with pytest.raises(ConnectionRefusedError):
            connect(address)
        assert not broker.is_running
        with pytest.raises(ClusterError, match=r"^broker 1 was killed$"):
            topic.records()
        with pytest.raises(ClusterError, match=r"broker 1 was killed; start it again with start\(\)"):
            broker.pause()
        broker.start()
        assert (broker.bootstrap, broker.control_url) == (address, control)
        assert broker.pid != pid
        assert len(topic.expect(1)) == 1


def test_a_broker_stops_in_order_and_restarts(three: Cluster) -> None:
    broker = three.brokers[2]
    broker.stop()
    assert "Stopped" in broker.log
    with pytest.raises(ClusterError, match="broker 3 ended with status 0"):
        _ = broker.pid
    broker.restart()
    assert broker.is_running
    broker.restart()
    with pytest.raises(ClusterError, match=f"broker 3 runs already, as process {broker.pid}"):
        broker.start()


def test_a_paused_broker_answers_when_it_is_resumed(three: Cluster) -> None:
    broker = three.brokers[0]
    broker.pause()
    assert broker.is_paused
    assert broker.describe() == f"broker 1, process {broker.pid}, is paused"
    assert Path(f"/proc/{broker.pid}/stat").read_text().split(") ")[1][0] == "T"
    topic = three.topic(timeout=60)  # the others go on, without it once its session has expired
    broker.resume()
    assert broker.describe() == f"broker 1, process {broker.pid}, runs"
    topic.produce(["a"])
    broker.stop()


def test_a_paused_broker_can_be_stopped_and_killed() -> None:
    with Cluster() as cluster:
        (broker,) = cluster.brokers
        for end in (broker.stop, broker.kill):
            broker.pause()
            end()
            assert not broker.is_running
            broker.start()


def test_a_broker_that_cannot_start_again_says_why(tmp_path: Path) -> None:
    with Cluster(directory=tmp_path / "data") as cluster:
        (broker,) = cluster.brokers
        broker.stop()
        (broker.data_dir / "meta.properties").write_text("cluster.id=other\nnode.id=1\nversion=1\n")
        with pytest.raises(ClusterError, match=r"broker 1 ended with status 2 at its start: .*cluster\.id=other"):
            broker.start()


def test_a_port_that_was_taken_meanwhile_is_named() -> None:
    with Cluster() as cluster:
        (broker,) = cluster.brokers
        host, _, port = broker.bootstrap.rpartition(":")
        broker.kill()
        taken = pytest.raises(ClusterError, match=f"cannot listen on {broker.bootstrap}: Address already in use")
        with socket.create_server((host, int(port))), taken:  # it has SO_REUSEADDR, which allows it
            broker.start()
        broker.start()


def test_the_log_can_be_read_from_a_place_on(one: Cluster) -> None:
    broker = one.brokers[0]
    assert "node 1 of cluster" in broker.log
    assert broker.log_since(broker.log_bytes) == ""
    assert broker.log_file.exists()


def test_control_api_of_a_broker_that_starts_is_used_once_it_serves(one: Cluster) -> None:
    broker = one.brokers[0]
    broker.stop()
    broker.begin_start()
    with suppress(ClusterError):  # unless it serves already
        assert broker.control.address != ":0"
    broker.until_ready()
    assert "topics" in broker.control.call("GET", "/v1/topics")


def test_a_broker_that_has_ended_by_itself_is_known_to_and_starts_again() -> None:
    with Cluster() as cluster:
        (broker,) = cluster.brokers
        topic = cluster.topic()
        topic.produce(["kept"])
        os.kill(broker.pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while broker.is_running:
            assert time.monotonic() < deadline
        with pytest.raises(ClusterError, match=r"^broker 1 was killed$"):
            topic.records()
        broker.start()
        assert len(topic.records()) == 1


def test_a_broker_that_has_ended_by_itself_is_started_by_a_reset() -> None:
    with Cluster(2) as cluster:
        cluster.topic("left")
        os.kill(cluster.brokers[1].pid, signal.SIGKILL)
        assert cluster.reset().topics == ["left"]
        assert all(broker.is_running for broker in cluster.brokers)


def test_waits_go_on_at_the_brokers_that_are_left_when_one_ends() -> None:
    with Cluster(3) as cluster, ThreadPoolExecutor() as threads:
        group, topic = cluster.group("workers"), cluster.topic("orders", create=False)
        with cluster.fault("Produce", error="INVALID_RECORD") as fault:
            waits: list[Future[object]] = [
                threads.submit(group.wait_stable, members=1, timeout=1),
                threads.submit(topic.wait_exists, timeout=60),
                threads.submit(fault.wait, timeout=1),
            ]
            first = cluster.brokers[0]
            os.kill(first.pid, signal.SIGKILL)
            assert first.has_ended()
            cluster.topic("orders", timeout=60)
            waits[1].result()
            for wait in (waits[0], waits[2]):
                with pytest.raises(WaitTimeout):
                    wait.result()


def test_brokers_that_were_all_killed_are_started_one_by_one(three: Cluster) -> None:
    for broker in three.brokers:
        broker.kill()
    for broker in three.brokers:
        broker.start()
    topic = three.topic(replication_factor=3)
    topic.produce(["served"])
    assert [record.value for record in topic.records()] == [b"served"]


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "1.log").mkdir()
    with pytest.raises(ClusterError, match=r"1\.log: is a directory"):
        Cluster(directory=tmp_path).start()
