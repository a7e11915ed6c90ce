"""Barnabas and Apache Kafka side by side, started once for all that is compared on brokers with the same settings."""

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
    # Records of tests are of years ago, and are not to go in the midst of a comparison.
    "log.initial.task.delay.ms": 3_600_000,
}


@pytest.fixture(scope="session")
def bootstraps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Our address and Kafka's; whoever asks has topics and groups with names of his own."""
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
    """What Apache Kafka wrote, and made of what we wrote."""
    return make(tmp_path_factory.mktemp("directories"))
