"""Apache Kafka itself answers the recorded sessions of clients as Barnabas does."""

import time
from pathlib import Path

import pytest

from protocol.api import ApiKey
from tests.clients.sessions.replay import SETTINGS, prepare, replay
from tests.clients.sessions.transcript import FOLDER
from tests.oracles.kafka_server import KafkaServer
from tests.raw_client import RawClient

# Sentences are everybody's own; where there is nothing to say, Kafka says so, or nothing.
SAID = "error_message:"


@pytest.mark.parametrize("session", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_apache_kafka_answers_a_recorded_session_alike(session: Path, tmp_path: Path) -> None:
    kafka = KafkaServer(tmp_path / "kafka", SETTINGS)
    try:
        kafka.wait()
        prepare(kafka.bootstrap)
        fetch_producer_ids(kafka.bootstrap)
        for exchange in replay(session, kafka.bootstrap):
            assert compared(exchange.now) == compared(exchange.recorded), exchange.where
    finally:
        kafka.stop()


def fetch_producer_ids(bootstrap: str) -> None:
    """Let Kafka fetch ids for producers: the first who asks is told to ask again."""
    client = RawClient(bootstrap)
    client.call(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout_ms=0)
    client.close()
    time.sleep(1)


def compared(lines: list[str]) -> list[str]:
    return [line for line in lines if SAID not in line]
