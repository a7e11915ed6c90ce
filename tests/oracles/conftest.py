"""Barnabas and Apache Kafka side by side, started once for all comparisons on brokers with the same settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker_process import BrokerProcess
from tests.oracles.directories import Directories, make
from tests.oracles.kafka_server import KafkaServer

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "group.max.size": 3,
    # Records of tests have old timestamps and must not be deleted during a comparison.
    "log.initial.task.delay.ms": 3_600_000,
}


@pytest.fixture(scope="session")
def bootstraps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Our address and Kafka's; each test uses its own topic and group names."""
    folder = tmp_path_factory.mktemp("both")
    kafka = KafkaServer(folder / "kafka", SETTINGS)
    try:
        with BrokerProcess(folder / "ours", SETTINGS | {"node.id": 1, "offsets.topic.num.partitions": 1}) as ours:
            kafka.wait()
            yield ours.bootstrap, kafka.bootstrap
            ours.check_log()
    finally:
        kafka.stop()


@pytest.fixture(scope="session")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Directories:
    """Directories that Apache Kafka wrote, and what it read from ours."""
    return make(tmp_path_factory.mktemp("directories"))
