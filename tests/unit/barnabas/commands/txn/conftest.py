"""Transactions of real producers, and hanging ones, on the shared broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from protocol.api import ApiKey
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch
from tests.broker_process import BrokerProcess
from tests.raw_client import RawClient
from tests.unit.barnabas.conftest import Command

Hang = Callable[..., int]


@pytest.fixture
def ongoing(shared_broker: BrokerProcess, barnabas: Command, topic: str) -> Iterator[str]:
    """Return a transactional id whose transaction is open in partition 1 of the test's topic."""
    barnabas("topic", "create", f"{topic}:2")
    producer = Producer(
        {"bootstrap.servers": shared_broker.bootstrap, "transactional.id": topic, "transaction.timeout.ms": 50_000}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=1)
    producer.flush()
    yield topic
    producer.abort_transaction()


@pytest.fixture
def hang(shared_broker: BrokerProcess, barnabas: Command, topic: str, settings_of_brokers: None) -> Hang:
    """Return a function that opens a hanging transaction of a new producer id, and returns that id."""
    barnabas("config", "set", "brokers", "transaction.partition.verification.enable=false")
    barnabas("topic", "create", f"{topic}:2")

    def hang(partition: int = 0, *, age_s: float = 3600) -> int:
        client = RawClient(shared_broker.bootstrap)
        given = client.call(
            ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1,
            producer_epoch=-1,
        )  # fmt: skip
        client.close()
        assert given.error_code == 0
        write_outside(shared_broker, topic, partition, given.producer_id, age_s=age_s)
        return int(given.producer_id)

    return hang


def write_outside(broker: BrokerProcess, topic: str, partition: int, producer_id: int, *, age_s: float = 3600) -> None:
    """Write a record of a transaction that the coordinator of its producer does not have with this partition."""
    records = build_batch(
        [(None, b"lost")],
        timestamp_ms=int((time.time() - age_s) * 1000),
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    data = ProduceRequest.Topic(
        name=topic, partition_data=[ProduceRequest.Topic.Partition(index=partition, records=records)]
    )
    client = RawClient(broker.bootstrap)
    answer = client.call(
        ApiKey.PRODUCE, 11, transactional_id=f"{topic}-unknown", acks=-1, timeout_ms=30_000, topic_data=[data]
    )
    client.close()
    assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.fixture
def idle(shared_broker: BrokerProcess, topic: str) -> str:
    """Return a transactional id without a transaction."""
    Producer({"bootstrap.servers": shared_broker.bootstrap, "transactional.id": topic}).init_transactions()
    return topic


@pytest.fixture
def prepared(shared_broker: BrokerProcess, barnabas: Command, topic: str) -> str:
    """Return a transactional id with a transaction of two-phase commit in partition 0 of the test's topic."""
    barnabas("topic", "create", topic)
    name = f"{topic}-prepared"
    client = RawClient(shared_broker.bootstrap)
    given = client.call(ApiKey.INIT_PRODUCER_ID, 6, transactional_id=name, transaction_timeout_ms=0, enable_2pc=True)
    assert given.error_code == 0
    added = client.call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=given.producer_id,
        v3_and_below_producer_epoch=given.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnRequest.Topic(name=topic, partitions=[0])],
    )
    assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    client.close()
    return name
