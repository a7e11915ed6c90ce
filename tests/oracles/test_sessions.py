"""Apache Kafka responds to the recorded client sessions as Barnabas does."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.api import ApiKey
from protocol.messages.metadata import MetadataRequest
from tests.clients.sessions.replay import SETTINGS, TIMEOUT_S, TOPIC, prepare, replay
from tests.clients.sessions.transcript import FOLDER
from tests.oracles.kafka_server import KafkaServer
from tests.raw_client import RawClient

# Error messages differ; Kafka may send an empty or a null one where there is none.
SHOWN = "error_message:"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of an Apache Kafka that has allocated a producer id: before its first block it refuses to."""
    kafka = KafkaServer(tmp_path_factory.mktemp("sessions") / "kafka", SETTINGS)
    try:
        kafka.wait()
        client, deadline = RawClient(kafka.bootstrap), time.monotonic() + TIMEOUT_S
        while client.call(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout_ms=0).error_code:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        client.close()
        yield kafka.bootstrap
    finally:
        kafka.stop()


@pytest.mark.parametrize("session", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_apache_kafka_answers_a_recorded_session_equally(session: Path, bootstrap: str) -> None:
    prepare(bootstrap)
    wait_for_topic(bootstrap)
    try:
        for exchange in replay(session, bootstrap, patience_s=TIMEOUT_S):
            assert compared(exchange.now) == compared(exchange.recorded), exchange.where
    finally:
        forget(bootstrap)


def forget(bootstrap: str) -> None:
    """Delete the topics and groups of a session (groups once empty); wait until the broker has applied it."""
    client = RawClient(bootstrap)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        groups = [found.group_id for found in client.call(ApiKey.LIST_GROUPS, 4).groups]
        topics = [found.name for found in client.call(ApiKey.METADATA, 12, topics=None).topics if not found.is_internal]
        if not groups and not topics:
            break
        assert time.monotonic() < deadline
        client.call(ApiKey.DELETE_GROUPS, 2, groups_names=groups)
        client.call(ApiKey.DELETE_TOPICS, 5, topic_names=topics, timeout_ms=10_000)
        time.sleep(0.1)
    client.close()


def wait_for_topic(bootstrap: str) -> None:
    """Wait until the broker has applied the topic that the controller created."""
    client, deadline = RawClient(bootstrap), time.monotonic() + TIMEOUT_S
    wanted = [MetadataRequest.Topic(name=TOPIC)]
    while client.call(ApiKey.METADATA, 12, topics=wanted).topics[0].error_code:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    client.close()


def compared(lines: list[str]) -> list[str]:
    """Return the lines without error messages and producer ids: earlier sessions have used some."""
    return [re.sub(r"producer_id: \d+", "producer_id: any", line) for line in lines if SHOWN not in line]
