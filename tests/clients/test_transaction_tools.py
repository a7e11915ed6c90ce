"""Open and hanging transactions in Apache Kafka's TransactionsCommand and kafka-python's admin client."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import AbortTransactionSpec, TransactionState

from protocol.api import ApiKey
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch
from tests.broker_process import BrokerProcess
from tests.oracles.apache_kafka import kafka_tool
from tests.raw_client import RawClient

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def unverified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker on which transactions can hang, because it does not verify them."""
    settings = {"transaction.partition.verification.enable": False, "transaction.state.log.num.partitions": 3}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), settings) as running:
        yield running
    running.check_log()


@pytest.fixture
def python(unverified: BrokerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=unverified.bootstrap)
    yield client
    client.close()


@pytest.fixture
def open_id(unverified: BrokerProcess, topic: str) -> Iterator[str]:
    """The id of a transaction that is open in partition 0 of the test's topic."""
    producer = Producer({"bootstrap.servers": unverified.bootstrap, "transactional.id": f"{topic}-id", "log_level": 0})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    yield f"{topic}-id"
    producer.abort_transaction(TIMEOUT_S)


def hang(broker: BrokerProcess, topic: str) -> int:
    """Open a transaction, of an hour ago, that no coordinator has; return its producer id."""
    client = RawClient(broker.bootstrap)
    try:
        given = client.call(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout_ms=60_000)
        records = build_batch(
            [(None, b"lost")],
            timestamp_ms=int((time.time() - 3600) * 1000),
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = ProduceRequest.Topic(
            name=topic, partition_data=[ProduceRequest.Topic.Partition(index=0, records=records)]
        )
        answer = client.call(
            ApiKey.PRODUCE, 11, transactional_id="nowhere", acks=-1, timeout_ms=30_000, topic_data=[data]
        )
        assert answer.responses[0].partition_responses[0].error_code == 0
        return int(given.producer_id)
    finally:
        client.close()


def tool(broker: BrokerProcess, *arguments: str) -> list[list[str]]:
    """Run TransactionsCommand; return the words of the lines that it prints."""
    command = kafka_tool(
        "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", broker.bootstrap, *arguments
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def test_kafkas_tool_lists_and_describes_a_transaction(unverified: BrokerProcess, open_id: str) -> None:
    header, row = tool(unverified, "list", "--transactional-id-pattern", f"{open_id}|none", "--duration-filter", "1")
    assert header == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
    assert (row[0], row[1], row[3]) == (open_id, "1", "Ongoing")
    header, described = tool(unverified, "describe", "--transactional-id", open_id)
    fields = dict(zip(header, described, strict=True))
    assert (fields["CoordinatorId"], fields["TransactionalId"], fields["TransactionState"]) == ("1", open_id, "Ongoing")
    assert fields["TopicPartitions"] == f"{open_id.removesuffix('-id')}-0"
    assert int(fields["TransactionDurationMs"]) >= 0


def test_kafkas_tool_finds_and_aborts_a_hanging_transaction(
    unverified: BrokerProcess, python: KafkaAdminClient, topic: str
) -> None:
    python.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
    producer = hang(unverified, topic)
    header, row = tool(unverified, "find-hanging", "--topic", topic)
    found = dict(zip(header, row, strict=False))
    assert (found["Topic"], found["Partition"], found["ProducerId"]) == (topic, "0", str(producer))
    assert found["StartOffset"] == "0"
    tool(unverified, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    (state,) = python.describe_producers([TopicPartition(topic, 0)]).values()
    assert [one.current_transaction_start_offset for one in state.active_producers] == [-1]


def test_kafka_python_lists_describes_and_aborts_transactions(
    unverified: BrokerProcess, python: KafkaAdminClient, open_id: str
) -> None:
    topic = open_id.removesuffix("-id")
    (listed,) = python.list_transactions(state_filters=["Ongoing"], transactional_id_pattern=open_id)[1]
    assert (listed.transactional_id, listed.state) == (open_id, TransactionState.ONGOING)
    described = python.describe_transactions([open_id])[open_id]
    assert (described.coordinator_id, described.state) == (1, TransactionState.ONGOING)
    assert described.topic_partitions == {TopicPartition(topic, 0)}
    producer = hang(unverified, topic)
    python.abort_transaction(AbortTransactionSpec(TopicPartition(topic, 0), producer, 0, 0))
    (state,) = python.describe_producers([TopicPartition(topic, 0)]).values()
    starts = {one.producer_id: one.current_transaction_start_offset for one in state.active_producers}
    assert starts == {listed.producer_id: 0, producer: -1}
