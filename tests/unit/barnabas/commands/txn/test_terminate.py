from __future__ import annotations

import json

import confluent_kafka
import pytest
from confluent_kafka import Producer

from protocol.api import ApiKey
from tests.broker_process import BrokerProcess
from tests.raw_client import RawClient
from tests.unit.barnabas.conftest import Command


@pytest.fixture
def one_open(shared_broker: BrokerProcess, barnabas: Command, topic: str) -> Producer:
    """Return a producer whose transaction, of the test's topic as its id, is open in both partitions."""
    barnabas("topic", "create", f"{topic}:2")
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    for partition in range(2):
        producer.produce(topic, b"open", partition=partition)
    producer.flush()
    return producer


def state(barnabas: Command, name: str) -> str:
    (one,) = json.loads(barnabas("txn", "describe", name, "--json").out)
    return str(one["state"])


def test_transaction_is_aborted_in_all_partitions_and_its_producer_fenced(
    barnabas: Command, topic: str, one_open: Producer
) -> None:
    shown = barnabas("txn", "terminate", topic)
    assert (shown.status, shown.err) == (0, "")
    assert shown.out.startswith(f"terminated {topic}: producer ")
    assert shown.out.endswith(", epoch 0, open in 2 partitions\n")
    assert barnabas("consume", topic, "-e", "-X", "isolation.level=read_committed").out == ""
    assert state(barnabas, topic) == "Empty"
    with pytest.raises(confluent_kafka.KafkaException) as fenced:
        one_open.commit_transaction()
    assert fenced.value.args[0].fatal()


def test_dry_run_terminates_nothing(barnabas: Command, topic: str, one_open: Producer) -> None:
    shown = barnabas("txn", "terminate", topic, "--dry-run")
    assert (shown.status, shown.err) == (0, "")
    assert shown.out.startswith(f"would terminate {topic}: producer ")
    assert state(barnabas, topic) == "Ongoing"
    one_open.commit_transaction()


def test_prepared_transaction_is_aborted(barnabas: Command, prepared: str) -> None:
    (terminated,) = json.loads(barnabas("txn", "terminate", prepared, "--json").out)
    assert (terminated["name"], terminated["result"], terminated["partitions"]) == (prepared, "terminated", 1)
    assert state(barnabas, prepared) == "Empty"


def test_id_without_a_transaction_is_fenced(barnabas: Command, shared_broker: BrokerProcess, idle: str) -> None:
    assert barnabas("txn", "terminate", idle).out.endswith(", epoch 0, no open transaction\n")
    client = RawClient(shared_broker.bootstrap)
    described = client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[idle])
    client.close()
    assert described.transaction_states[0].producer_epoch == 1


def test_unknown_id_is_an_error_and_is_not_created(barnabas: Command, idle: str) -> None:
    shown = barnabas("txn", "terminate", "nosuch", idle)
    assert (shown.status, shown.err) == (1, "barnabas txn terminate: nosuch: there is no such transactional id\n")
    assert barnabas("txn", "describe", "nosuch").status == 1
