"""`ext-cluster`, with which other projects' tests start their brokers."""

import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, BrokerMetadata, ConfigResource, ResourceType

EXT_CLUSTER = Path(__file__).parent / "ext-cluster"


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=7\n")
    (tmp_path / "server-0.properties").write_text("group.max.size=3\n")
    return path


@pytest.mark.parametrize("brokers", [1, 3])
def test_first_line_is_address_of_brokers_with_these_properties(tmp_path: Path, properties: Path, brokers: int) -> None:
    with subprocess.Popen(
        [EXT_CLUSTER, tmp_path, str(brokers), properties], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as cluster:
        try:
            assert cluster.stdout is not None
            bootstrap = cluster.stdout.readline().strip()
            admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
            found = admin.list_topics(timeout=30).brokers
            (requested,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "0")]).values()
            settings = requested.result(30)
        finally:
            cluster.kill()
        # EOF on the pipe means that every broker has exited.
        assert cluster.stdout.read() == ""
    assert (settings["num.partitions"].value, settings["group.max.size"].value) == ("7", "3")
    assert [f"{found[node].host}:{found[node].port}" for node in range(brokers)] == bootstrap.split(",")


def test_first_line_has_addresses_of_each_listener_and_options_apply(tmp_path: Path, properties: Path) -> None:
    properties.write_text(
        "listeners=FIRST://,SECOND://\nlistener.security.protocol.map=FIRST:PLAINTEXT,SECOND:PLAINTEXT\n"
        "inter.broker.listener.name=FIRST\n"
    )
    with subprocess.Popen(
        [EXT_CLUSTER, tmp_path, "1", properties, "-Dnum.partitions=9"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as cluster:
        try:
            assert cluster.stdout is not None
            listeners = cluster.stdout.readline().split()
            for bootstrap in listeners:
                admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
                found = admin.list_topics(timeout=30).brokers[0]
                assert f"{found.host}:{found.port}" == bootstrap
            (requested,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "0")]).values()
            assert requested.result(30)["num.partitions"].value == "9"
        finally:
            cluster.kill()
    assert len(set(listeners)) == 2


def test_broker_restarts_with_same_address(tmp_path: Path, properties: Path) -> None:
    with subprocess.Popen(
        [EXT_CLUSTER, tmp_path, "3", properties],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as cluster:
        try:
            assert cluster.stdin is not None
            assert cluster.stdout is not None
            admin = AdminClient({"bootstrap.servers": cluster.stdout.readline().strip(), "log_level": 0})
            before = admin.list_topics(timeout=30).brokers
            cluster.stdin.write("stop 1\n")
            cluster.stdin.flush()
            assert cluster.stdout.readline() == "stop 1\n"
            until_there(admin, 0, 2)
            cluster.stdin.write("start 1\n")
            cluster.stdin.flush()
            assert cluster.stdout.readline() == "start 1\n"
            after = until_there(admin, 0, 1, 2)
            assert (after[1].host, after[1].port) == (before[1].host, before[1].port)
        finally:
            cluster.kill()


def until_there(admin: AdminClient, *brokers: int) -> dict[int, BrokerMetadata]:
    deadline = time.monotonic() + 30
    while sorted(found := admin.list_topics(timeout=30).brokers) != list(brokers):
        assert time.monotonic() < deadline, found
    return found


def test_broker_that_does_not_start_prints_reason(tmp_path: Path, properties: Path) -> None:
    properties.write_text("num.partitions=none\n")
    done = subprocess.run([EXT_CLUSTER, tmp_path, "3", properties], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "num.partitions" in done.stderr


def test_cluster_of_zero_brokers_is_rejected(tmp_path: Path, properties: Path) -> None:
    done = subprocess.run([EXT_CLUSTER, tmp_path, "0", properties], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "usage: ext-cluster" in done.stderr
