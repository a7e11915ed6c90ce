from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from barnabas.testing import Cluster, ClusterError
from barnabas.testing.containers import KafkaContainer, KafkaServices, docker_ip, docker_services
from tests.broker_process import free_address
from tests.typed import present

__all__ = ["docker_ip", "docker_services"]


def test_a_suite_for_testcontainers_runs_with_another_import() -> None:
    described = (
        KafkaContainer("confluentinc/cp-kafka:7.6.0")
        .with_kraft()
        .with_cluster_id("unused")
        .with_name("kafka")
        .with_env("KAFKA_NUM_PARTITIONS", "4")
        .with_envs(KAFKA_HEAP_OPTS="-Xmx1g", KAFKA_LISTENERS="PLAINTEXT://0.0.0.0:1", OTHER="x")
        .with_exposed_ports(9093)
    )
    with described as kafka:
        address = kafka.get_bootstrap_server()
        assert address == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(9093)}"
        admin = AdminClient({"bootstrap.servers": address})
        admin.list_topics("made")
        assert len(present(kafka.cluster).topic("made", create=False).describe()["partitions"]) == 4
        assert kafka.status == "running"
        assert b"node 1 of cluster" in kafka.get_logs()[1]
        with pytest.raises(ClusterError, match="there is no port 8080, only Kafka's, 9093"):
            kafka.get_exposed_port(8080)
        with pytest.raises(ClusterError, match="there is no container to run 'ls' in"):
            kafka.exec("ls")
    assert kafka.status == "exited"
    with pytest.raises(ClusterError, match="the broker does not run"):
        kafka.get_bootstrap_server()
    kafka.stop()


def test_a_bound_port_is_the_brokers() -> None:
    host, _, port = free_address().rpartition(":")
    container = KafkaContainer().with_bind_ports("9093/tcp", port)
    assert container.start().get_bootstrap_server() == f"{host}:{port}"
    container.stop()


def test_the_fixtures_of_pytest_docker_have_the_brokers_address(one: Cluster) -> None:
    services = KafkaServices(one)
    assert f"127.0.0.1:{services.port_for('kafka', 9092)}" == one.bootstrap
    answers = iter([False, True])
    services.wait_until_responsive(lambda: next(answers), timeout=60, pause=0.0)
    with pytest.raises(ClusterError, match=r"the check has failed for 0\.01 s"):
        services.wait_until_responsive(lambda: False, timeout=0.01, pause=0.001)


def test_other_numbers_of_ports_than_brokers_are_refused() -> None:
    with pytest.raises(ClusterError, match="ports: there are 1 for 2 brokers"):
        Cluster(2, ports=[1]).start()
