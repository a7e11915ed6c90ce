"""Transactions in each state, listed and described, and repeated batches, against Apache Kafka's responses.

One difference is tested: a batch that repeats one of an ended transaction is refused, which protects the transaction
that the client has open now. librdkafka 2.16 uses sequence numbers again for new records if it aborts a transaction
while a batch is to be repeated; Apache Kafka answers such a batch as a duplicate, and the new records are lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from controller.topic_names import TRANSACTION_STATE
from protocol.api import APIS, ApiKey
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch
from protocol.schema import Struct
from tests.broker_process import BrokerProcess
from tests.oracles.kafka_server import KafkaServer
from tests.raw_client import RawClient

SETTINGS = {
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 3,
}
RETRIABLE = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
STATES = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"]
LIST_VERSIONS = APIS[ApiKey.LIST_TRANSACTIONS].versions


class Producer(NamedTuple):
    """A producer's id and epoch, as fields of a request."""

    producer_id: int
    producer_epoch: int


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RawClient, RawClient]]:
    """Barnabas and Apache Kafka after the same requests: the ids `idle`, `open`, `committed` and `aborted`."""
    folder = tmp_path_factory.mktemp("both")
    kafka = KafkaServer(folder / "kafka", SETTINGS)
    try:
        with BrokerProcess(folder / "ours", SETTINGS) as ours:
            kafka.wait()
            both = RawClient(ours.bootstrap), RawClient(kafka.bootstrap)
            for client in both:
                fill(client)
            yield both
            for client in both:
                client.close()
    finally:
        kafka.stop()


def fill(client: RawClient) -> None:
    topic = CreateTopicsRequest.Topic(name="t", num_partitions=3, replication_factor=1, assignments=[], configs=[])
    client.call(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout_ms=30_000)
    producers = {}
    for name in ("idle", "open", "committed", "aborted"):
        found = retried(
            client,
            ApiKey.FIND_COORDINATOR,
            4,
            lambda it: it.coordinators[0].error_code,
            key_type=1,
            coordinator_keys=[name],
        )
        assert found.coordinators[0].node_id == 1
        begun = retried(
            client,
            ApiKey.INIT_PRODUCER_ID,
            4,
            lambda it: it.error_code,
            transactional_id=name,
            transaction_timeout_ms=600_000 if name == "open" else 30_000,
        )
        producers[name] = Producer(begun.producer_id, begun.producer_epoch)
    del producers["idle"]
    for name, producer in producers.items():
        retried(
            client,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            lambda it: it.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnRequest.Topic(name="t", partitions=[2, 0])],
        )
    for name in ("committed", "aborted"):
        retried(
            client,
            ApiKey.END_TXN,
            3,
            lambda it: it.error_code,
            transactional_id=name,
            committed=name == "committed",
            **producers[name]._asdict(),
        )
    deadline = time.monotonic() + 60
    while any(state.startswith("Prepare") for _, state in listed(client, 2).transaction_states):
        assert time.monotonic() < deadline


def retried(client: RawClient, key: ApiKey, version: int, error_of: Any, **fields: Any) -> Any:
    """Return the response to a request, which is repeated while its error is temporary."""
    deadline = time.monotonic() + 60
    while True:
        answer = client.call(key, version, **fields)
        error = error_of(answer)
        if error not in RETRIABLE:
            assert error == 0, answer
            return answer
        assert time.monotonic() < deadline, answer


class Listed(NamedTuple):
    """A response to ListTransactions, without producer ids, and in order."""

    error_code: int
    unknown: list[str]
    transaction_states: list[tuple[str, str]]


def listed(client: RawClient, version: int, **filters: Any) -> Listed:
    fields = {"state_filters": [], "producer_id_filters": []} | filters
    answer = client.call(ApiKey.LIST_TRANSACTIONS, version, **fields)
    states = sorted((one.transactional_id, one.transaction_state) for one in answer.transaction_states)
    return Listed(answer.error_code, sorted(answer.unknown_state_filters), states)


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"state_filters": STATES},
        {"state_filters": ["Ongoing", "CompleteAbort"]},
        {"state_filters": ["ongoing", "Nonsense", "PrepareEpochFence", " Empty"]},
        {"producer_id_filters": [9_999_999]},
    ],
)
@pytest.mark.parametrize("version", LIST_VERSIONS)
def test_ids_are_listed_as_by_kafka(
    clients: tuple[RawClient, RawClient], version: int, filters: dict[str, list[Any]]
) -> None:
    ours, kafkas = (listed(client, version, **filters) for client in clients)
    assert ours == kafkas


@pytest.mark.parametrize("duration_ms", [-2, -1, 0, 3_600_000])
@pytest.mark.parametrize("version", [1, 2])
def test_durations_are_compared_as_by_kafka(
    clients: tuple[RawClient, RawClient], version: int, duration_ms: int
) -> None:
    ours, kafkas = (listed(client, version, duration_filter=duration_ms) for client in clients)
    assert ours == kafkas


@pytest.mark.parametrize("pattern", [None, "", ".*e.*", "o", "open|idle", "(?i)OPEN", "(", "a**", "(?=o)"])
def test_patterns_match_as_in_kafka(clients: tuple[RawClient, RawClient], pattern: str | None) -> None:
    ours, kafkas = (listed(client, 2, transactional_id_pattern=pattern) for client in clients)
    assert ours == kafkas


def test_ids_are_described_as_by_kafka(clients: tuple[RawClient, RawClient]) -> None:
    names = ["open", "idle", "nosuch", "", "committed", "aborted"]
    ours, kafkas = (described(client, names) for client in clients)
    assert ours == kafkas
    assert [one["transactional_id"] for one in ours] == names


def described(client: RawClient, names: list[str]) -> list[dict[str, Any]]:
    """Return the results without ids of producers; a start is shown as whether there is one."""
    answer = client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=names)
    found = [plain(one) for one in answer.transaction_states]
    for one in found:
        del one["producer_id"]
        one["transaction_start_time_ms"] = one["transaction_start_time_ms"] > 0
    return found


def plain(value: Any) -> Any:
    if isinstance(value, Struct):
        names: tuple[str, ...] = type(value).__slots__
        return {name: plain(getattr(value, name)) for name in names}
    return sorted(map(plain, value), key=repr) if isinstance(value, list) else value


def test_the_topic_of_transactions_is_internal(clients: tuple[RawClient, RawClient]) -> None:
    for client in clients:
        answer = client.call(ApiKey.METADATA, 1, topics=None)
        assert {one.name: one.is_internal for one in answer.topics} == {"t": False, TRANSACTION_STATE: True}


@pytest.mark.parametrize("committed", [True, False])
def test_rule_11_batch_of_an_ended_transaction_is_refused_which_kafka_takes_for_a_duplicate(
    clients: tuple[RawClient, RawClient], committed: bool
) -> None:
    (first, again), (kafkas_first, kafkas_again) = (send_in_two_transactions(client, committed) for client in clients)
    assert first == kafkas_first
    assert first[0] == ErrorCode.NONE
    assert again == (ErrorCode.INVALID_TXN_STATE, -1)
    assert kafkas_again == kafkas_first


def send_in_two_transactions(client: RawClient, committed: bool) -> list[tuple[int, int]]:
    """Return the error and base offset of a batch in a transaction, and of the same batch in the next one."""
    name = f"again after {committed}"
    begun = retried(
        client, ApiKey.INIT_PRODUCER_ID, 4, lambda it: it.error_code, transactional_id=name, transaction_timeout_ms=9000
    )
    producer = Producer(begun.producer_id, begun.producer_epoch)
    now_ms = int(time.time() * 1000)
    batch = build_batch(
        [(None, b"1")], timestamp_ms=now_ms, base_sequence=0, is_transactional=True, **producer._asdict()
    )
    partition = ProduceRequest.Topic.Partition(index=1, records=batch)
    data = [ProduceRequest.Topic(name="t", partition_data=[partition])]
    answers = []
    for ends_with in (committed, False):
        retried(
            client,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            lambda it: it.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnRequest.Topic(name="t", partitions=[1])],
        )
        # Version 11: the producer keeps its epoch over transactions.
        response = client.call(ApiKey.PRODUCE, 11, transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=data)
        [[answer]] = [topic.partition_responses for topic in response.responses]
        answers.append((answer.error_code, answer.base_offset))
        retried(
            client,
            ApiKey.END_TXN,
            3,
            lambda it: it.error_code,
            transactional_id=name,
            committed=ends_with,
            **producer._asdict(),
        )
    return answers
