from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.coordinator.transaction.transaction_partitions import MAX_PARTITIONS
from broker.handlers.add_partitions_to_txn import add_offsets, add_or_verify
from broker.network.connection import RequestContext
from controller.topic_names import CONSUMER_OFFSETS, INTERNAL_TOPICS
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.node import LISTENER
from tests.unit.broker.transaction_node import TransactionNode

_Topic = AddPartitionsToTxnRequest.Topic
NONE = ErrorCode.NONE


@pytest.fixture
def coordinated(new_node: NewNode) -> TransactionNode:
    node = new_node()
    node.start()
    return TransactionNode(node).host()


def add(coordinated: TransactionNode, producer: ProducerIdAndEpoch, *partitions: int, version: int = 3) -> Any:
    """Add partitions of x as a client; return the error of each."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[_Topic(name="x", partitions=list(partitions))],
    )
    response = coordinated.node.wait(add_or_verify(coordinated.node.broker, request, version))
    return errors_of(response.results_by_topic_v3_and_below)


def errors_of(topics: Any) -> dict[int, ErrorCode]:
    [topic] = topics
    return {each.partition_index: ErrorCode(each.partition_error_code) for each in topic.results_by_partition}


def batched(coordinated: TransactionNode, *transactions: AddPartitionsToTxnRequest.Transaction) -> list[Any]:
    request = AddPartitionsToTxnRequest(transactions=list(transactions))
    response = coordinated.node.wait(add_or_verify(coordinated.node.broker, request, 5))
    return [(each.transactional_id, errors_of(each.topic_results)) for each in response.results_by_transaction]


def transaction(
    producer: ProducerIdAndEpoch, *partitions: int, name: str = "t", verify_only: bool = False
) -> AddPartitionsToTxnRequest.Transaction:
    return AddPartitionsToTxnRequest.Transaction(
        transactional_id=name,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=[_Topic(name="x", partitions=list(partitions))],
    )


def test_client_adds_partitions(coordinated: TransactionNode) -> None:
    producer = coordinated.producer()
    assert add(coordinated, producer, 0, 1) == {0: NONE, 1: NONE}
    metadata = coordinated.transactions.describe("t")
    assert metadata is not None
    assert set(metadata.partitions) == {("x", 0), ("x", 1)}
    assert metadata.client_transaction_version == 0


def test_nothing_is_added_if_a_partition_does_not_exist(coordinated: TransactionNode) -> None:
    errors = add(coordinated, coordinated.producer(), 0, 7)
    assert errors == {0: ErrorCode.OPERATION_NOT_ATTEMPTED, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert coordinated.state() == "Empty"


@pytest.mark.parametrize("internal", sorted(INTERNAL_TOPICS))
@pytest.mark.parametrize("version", [0, 3])
@pytest.mark.parametrize("count", [1, MAX_PARTITIONS])
def test_client_adds_no_internal_topic(coordinated: TransactionNode, version: int, internal: str, count: int) -> None:
    producer = coordinated.producer()
    if coordinated.node.image.topic(internal) is None:
        coordinated.node.create(internal)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[_Topic(name="x", partitions=[0] * count), _Topic(name=internal, partitions=[0])],
    )
    response: Any = coordinated.node.wait(add_or_verify(coordinated.node.broker, request, version))
    assert {topic.name: errors_of([topic]) for topic in response.results_by_topic_v3_and_below} == {
        "x": {0: ErrorCode.OPERATION_NOT_ATTEMPTED},
        internal: {0: ErrorCode.TOPIC_AUTHORIZATION_FAILED},
    }
    assert coordinated.state() == "Empty"


EXISTING = range(2)
MISSING = range(2, 100_000)


@pytest.mark.parametrize(
    ("partitions", "refused"),
    [
        (list(EXISTING) * 50_000, dict.fromkeys(EXISTING, ErrorCode.TRANSACTION_ABORTABLE)),
        (
            [*EXISTING, *MISSING],
            dict.fromkeys(EXISTING, ErrorCode.OPERATION_NOT_ATTEMPTED)
            | dict.fromkeys(MISSING, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ),
    ],
    ids=["existing", "missing"],
)
@pytest.mark.parametrize("version", [3, 5])
def test_request_for_too_many_partitions_is_refused_in_several_turns(
    coordinated: TransactionNode, version: int, partitions: list[int], refused: dict[int, ErrorCode]
) -> None:
    producer = coordinated.producer()
    large = transaction(producer, *partitions)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=large.topics,
        transactions=[large],
    )
    task = coordinated.node.loop.create_task(answer(coordinated, request, version))
    turns = 0
    while not task.done():
        coordinated.node.pass_time(0)
        turns += 1
    [results] = (
        [task.result().results_by_topic_v3_and_below]
        if version == 3
        else [one.topic_results for one in task.result().results_by_transaction]
    )
    assert errors_of(results) == refused
    assert turns > 50
    assert coordinated.state() == "Empty"


async def answer(coordinated: TransactionNode, request: AddPartitionsToTxnRequest, version: int) -> Any:
    outcome = add_or_verify(coordinated.node.broker, request, version)
    return await outcome if isinstance(outcome, Awaitable) else outcome


@pytest.mark.parametrize(("version", "error"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_old_client_gets_the_error_that_it_knows(coordinated: TransactionNode, version: int, error: ErrorCode) -> None:
    zombie = coordinated.producer()
    coordinated.producer()
    assert add(coordinated, zombie, 0, version=version) == {0: error}


def test_broker_adds_and_verifies_several_transactions(coordinated: TransactionNode) -> None:
    one, other = coordinated.producer(), coordinated.producer("u")
    answers = batched(
        coordinated,
        transaction(one, 0),
        transaction(other, 0, 1, name="u", verify_only=True),
        transaction(other, 0, name="unknown"),
    )
    assert answers == [
        ("t", {0: NONE}),
        ("u", {0: ErrorCode.TRANSACTION_ABORTABLE, 1: ErrorCode.TRANSACTION_ABORTABLE}),
        ("unknown", {0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}),
    ]
    metadata = coordinated.transactions.describe("t")
    assert metadata is not None
    assert metadata.client_transaction_version == 2
    [(_, verified)] = batched(coordinated, transaction(one, 0, 1, verify_only=True))
    assert verified == {0: NONE, 1: ErrorCode.TRANSACTION_ABORTABLE}


def test_batch_is_answered_once_all_is_committed(new_node: NewNode) -> None:
    node = new_node()
    node.start()
    coordinated = TransactionNode(node).host(replicated=True)
    began = coordinated.init()
    coordinated.settle()
    coordinated.replicate()
    producer = coordinated.producer_of(began)
    request = AddPartitionsToTxnRequest(
        transactions=[transaction(producer, 0), transaction(producer, 0, name="unknown")]
    )
    answer: Any = add_or_verify(node.broker, request, 4)
    task = node.loop.create_task(answer)
    coordinated.settle()
    assert not task.done()
    coordinated.replicate()
    assert [errors_of(one.topic_results) for one in node.wait(task).results_by_transaction] == [
        {0: NONE},
        {0: ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    ]


def test_offsets_of_a_group_add_its_partition(coordinated: TransactionNode) -> None:
    producer = coordinated.producer()
    context = RequestContext(ApiKey.ADD_OFFSETS_TO_TXN, 4, 7, "c", 1, LISTENER, "127.0.0.1")
    request = AddOffsetsToTxnRequest(
        transactional_id="t", producer_id=producer.producer_id, producer_epoch=producer.epoch, group_id="g"
    )
    response: Any = coordinated.node.wait(add_offsets(coordinated.node.broker, context, request))
    assert response.error_code == NONE
    metadata = coordinated.transactions.describe("t")
    assert metadata is not None
    assert set(metadata.partitions) == {(CONSUMER_OFFSETS, coordinated.node.broker.groups.runtime.partition_of("g"))}
