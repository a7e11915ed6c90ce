"""The errors of transactional producers that docs/CLIENTS.md lists: after a fencing, and after a time-out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.broker_process import BrokerProcess
from tests.clients.clients import CLIENTS
from tests.clients.steps import StepError, Steps
from tests.clients.test_transactional_clients import ONE, SHORT_TIMEOUT_MS, Reader

PAGE = Path("docs/CLIENTS.md")
TOPIC = "errors"
NAMES = {"java": "Java", "confluent-kafka": "librdkafka", "kafka-python": "kafka-python"}
OK = "ok"
# The calls after the transaction has ended, and a pattern of the error of each.
FENCED: dict[str, dict[str, list[str]]] = {
    "java": {
        "commit abort": ["ProducerFencedException", "ProducerFencedException"],
        "send commit abort": [
            "InvalidProducerEpochException",
            "InvalidProducerEpochException",
            "ProducerFencedException",
        ],
    },
    "confluent-kafka": {"commit abort": ["FATAL,code=_FENCED", "FATAL,code=_FENCED"]},
    "kafka-python": {
        "commit abort": ["ProducerFencedError", "ProducerFencedError"],
        "send commit": ["InvalidProducerEpochError", "BUMPING_PRODUCER_EPOCH|ProducerFencedError"],
    },
}
TIMED_OUT = FENCED | {
    "java": {
        "commit abort": ["InvalidTxnStateException", "KafkaException"],
        "abort begin": [OK, OK],
        "send commit abort": ["InvalidProducerEpochException", "InvalidProducerEpochException", OK],
    },
    "kafka-python": {
        "commit abort": ["ProducerFencedError", "ProducerFencedError"],
        "send commit": ["InvalidProducerEpochError", "BUMPING_PRODUCER_EPOCH|READY"],
    },
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), ONE) as running:
        Reader(running.bootstrap, TOPIC).create_topics(TOPIC)
        yield running


def outcome(producer: Steps, step: str) -> str:
    """Return the text of the error of a call, or `OK`."""
    try:
        producer.run(*((step, TOPIC, 0, "refused") if step == "send" else (step,)))
    except StepError as error:
        return str(error)
    return OK


@pytest.mark.parametrize(
    ("name", "is_fenced", "calls"),
    [
        (name, rows is FENCED, calls)
        for rows in (FENCED, TIMED_OUT)
        for name, expected in rows.items()
        for calls in expected
    ],
)
def test_errors_after_the_end_of_a_transaction_are_those_of_the_page(
    broker: BrokerProcess, tmp_path: Path, name: str, is_fenced: bool, calls: str
) -> None:
    (client,) = [one for one in CLIENTS if one.name == name]
    transactional_id = f"{name} {is_fenced} {calls}"
    reader = Reader(broker.bootstrap, TOPIC)
    timeout = {} if is_fenced else {"timeout_ms": SHORT_TIMEOUT_MS}
    with Steps(client, broker.bootstrap, transactional_id, TOPIC, tmp_path / "log", **timeout) as producer:
        for step in (("init",), ("begin",), ("send", TOPIC, 0, "first")):
            producer.run(*step)
        if is_fenced:
            Producer(
                {"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, "log_level": 0}
            ).init_transactions()
        reader.wait_until_closed()
        outcomes = [outcome(producer, step) for step in calls.split()]
    expected = (FENCED if is_fenced else TIMED_OUT)[name][calls]
    for found, wanted in zip(outcomes, expected, strict=True):
        assert re.search(wanted, found)
    row = re.search(rf"^  \| {NAMES[name]} \|(.*)\|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    assert row is not None
    named = row[1] if is_fenced else row[1] * row[2].strip().startswith("the same") + row[2]
    errors = {error for one in expected for error in one.removeprefix("FATAL,code=").split("|")} - {OK}
    assert errors <= set(re.findall(r"`(\w+)`", named))
