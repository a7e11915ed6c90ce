"""Verification of transactions that other brokers coordinate; `test_produce_in_transactions` has the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from broker.replication.add_partitions_to_txn_manager import (
    BROKER_VERSION,
    AddPartitionsToTxnManager,
    Transaction,
    Verified,
)
from broker.replication.partition import Partition
from broker.replication.verification_queue import TransactionOperation
from controller.topic_names import TRANSACTION_STATE
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from protocol.request_memory import RequestMemory
from storage.log.verification import MAX_VERIFICATIONS
from tests.unit.broker.node import Node

COORDINATOR = 5
VERIFY = TransactionOperation.VERIFY_ABORTABLE


class Client:
    """The connection to a coordinator; the test answers the requests."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.calls: list[tuple[AddPartitionsToTxnRequest, asyncio.Future[Any]]] = []
        self.closed = False

    def call(self, request: AddPartitionsToTxnRequest, *, min_version: int) -> asyncio.Future[Any]:
        assert min_version == BROKER_VERSION
        self.calls.append((request, self._loop.create_future()))
        if self.closed:
            self.calls[-1][1].set_result(None)
        return self.calls[-1][1]

    def close(self) -> None:
        self.closed = True
        for _, answer in self.calls:
            if not answer.done():
                answer.set_result(None)

    @property
    def ids(self) -> list[list[str]]:
        """Return the transactional ids of each request."""
        return [[one.transactional_id for one in request.transactions] for request, _ in self.calls]

    def answer(self, at: int, code: ErrorCode = ErrorCode.NONE) -> None:
        """Answer a request with one error code for all its partitions."""
        request, answer = self.calls[at]
        topic = AddPartitionsToTxnResponse.Topic
        answer.set_result(
            AddPartitionsToTxnResponse(
                results_by_transaction=[
                    AddPartitionsToTxnResponse.Transaction(
                        transactional_id=one.transactional_id,
                        topic_results=[
                            topic(
                                name=wanted.name,
                                results_by_partition=[
                                    topic.Partition(partition_index=index, partition_error_code=code)
                                    for index in wanted.partitions
                                ],
                            )
                            for wanted in one.topics
                        ],
                    )
                    for one in request.transactions
                ]
            )
        )


class Remote:
    """A broker whose transactions another broker coordinates."""

    def __init__(self, node: Node) -> None:
        self.node = node
        node.register(COORDINATOR, "other", 9092)
        node.create(TRANSACTION_STATE, replicas=(COORDINATOR,), leader=COORDINATOR)
        node.create("t", partitions=3)
        self.connected: list[int] = []
        self.client = Client(node.loop)
        self.verification = AddPartitionsToTxnManager(
            1,
            image=lambda: node.image,
            connect_broker=self.connect,
            call_here=self.not_here,
            config=node.broker.dynamic_config.__getitem__,
            loop=node.loop,
            now_ms=node.now_ms,
            request_memory=RequestMemory(),
        )

    def connect(self, broker: int) -> Any:
        self.connected.append(broker)
        return self.client

    def not_here(self, request: AddPartitionsToTxnRequest, version: int) -> Any:
        raise AssertionError("this broker is not the coordinator")

    def verify(self, transactional_id: str = "id", index: int = 0, *, producer_id: int = 7, epoch: int = 0) -> Any:
        transaction = Transaction(transactional_id, producer_id, epoch, VERIFY)
        outcome = self.verification.verify(transaction, {self.node.partition("t", index): 0})
        return self.node.loop.create_task(outcome) if isinstance(outcome, Awaitable) else outcome  # type: ignore[arg-type]

    def sent(self, transactional_id: str = "id", index: int = 0, *, producer_id: int = 7, epoch: int = 0) -> Any:
        """Verify, and send the request unless another is in flight."""
        outcome = self.verify(transactional_id, index, producer_id=producer_id, epoch=epoch)
        self.node.pass_time(0)
        return outcome

    def codes(self, outcome: Any) -> dict[int, ErrorCode]:
        verified: Verified = self.node.wait(outcome)
        return {partition.index: error.code for partition, error in verified.errors.items()}


@pytest.fixture
def remote(node: Node) -> Remote:
    return Remote(node)


def test_coordinator_is_the_leader_of_the_ids_partition(remote: Remote) -> None:
    outcome = remote.sent()
    assert remote.connected == [COORDINATOR]
    assert remote.client.ids == [["id"]]
    remote.client.answer(0)
    assert remote.codes(outcome) == {}


def test_requests_that_come_while_one_is_in_flight_are_sent_together(remote: Remote) -> None:
    first, *others = (remote.sent(name, producer_id=number) for number, name in enumerate("abc"))
    assert remote.client.ids == [["a"]]
    remote.client.answer(0)
    assert remote.codes(first) == {}
    remote.node.pass_time(0)
    assert remote.client.ids == [["a"], ["b", "c"]]
    remote.client.answer(1, ErrorCode.INVALID_TXN_STATE)
    assert [remote.codes(one) for one in others] == [{0: ErrorCode.INVALID_TXN_STATE}] * 2
    assert remote.connected == [COORDINATOR]


def test_partitions_verified_in_one_turn_of_the_loop_are_sent_together(remote: Remote) -> None:
    outcomes = [remote.verify("a", index=0), remote.verify("a", index=1), remote.verify("b", producer_id=8)]
    remote.node.pass_time(0)
    [[(request, _)]] = [remote.client.calls]
    sent = {one.transactional_id: [topic.partitions for topic in one.topics] for one in request.transactions}
    assert sent == {"a": [[0, 1]], "b": [[0]]}
    remote.client.answer(0)
    assert [remote.codes(one) for one in outcomes] == [{}, {}, {}]


def test_lost_request_fails_with_network_exception_and_the_next_is_sent(remote: Remote) -> None:
    first, second = remote.sent("a"), remote.sent("b")
    remote.client.calls[0][1].set_result(None)
    assert remote.codes(first) == {0: ErrorCode.NETWORK_EXCEPTION}
    remote.node.pass_time(0)
    remote.client.answer(1)
    assert remote.codes(second) == {}


def test_coordinator_without_the_api_verifies_nothing(remote: Remote) -> None:
    outcome = remote.sent()
    remote.client.calls[0][1].set_exception(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    assert remote.codes(outcome) == {}


def test_id_that_is_verified_again_replaces_the_request_that_waits(remote: Remote) -> None:
    remote.sent("first")
    replaced, last = remote.sent("a", index=1), remote.sent("a", index=2, epoch=1)
    assert remote.codes(replaced) == {1: ErrorCode.INVALID_PRODUCER_EPOCH}
    remote.client.answer(0)
    remote.node.pass_time(0)
    assert remote.client.ids == [["first"], ["a"]]
    remote.client.answer(1)
    assert remote.codes(last) == {}


def test_fenced_coordinator_is_not_available(remote: Remote) -> None:
    remote.node.elect(TRANSACTION_STATE, 99)
    assert remote.codes(remote.verify()) == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert remote.connected == []


def test_new_leader_is_the_coordinator_of_later_requests(remote: Remote) -> None:
    remote.node.register(6, "third", 9092)
    remote.node.elect(TRANSACTION_STATE, 6)
    outcome = remote.sent()
    assert remote.connected == [6]
    remote.client.answer(0)
    assert remote.codes(outcome) == {}


def test_stop_ends_the_requests_that_wait(remote: Remote) -> None:
    outcomes = [remote.sent("a"), remote.sent("b"), remote.verify("c")]
    remote.verification.stop()
    assert remote.client.closed
    assert [remote.codes(one) for one in outcomes] == [{0: ErrorCode.NETWORK_EXCEPTION}] * 3


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_REQUEST,  # of an empty transactional id
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ],
)
def test_producer_ids_that_no_coordinator_may_know_leave_nothing_in_the_partition(
    remote: Remote, code: ErrorCode
) -> None:
    verifications = remote.node.partition("t").log.producers.verifications
    for number in range(10):
        outcome = remote.sent(str(number), producer_id=number)
        assert list(verifications) == [number]
        remote.client.answer(number, code)
        assert remote.codes(outcome)
        assert verifications == {}
        remote.node.pass_time(0)


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_verification_is_finished_whatever_becomes_of_its_request(remote: Remote, is_cancelled: bool) -> None:
    outcome = remote.sent()
    if is_cancelled:
        outcome.cancel()
    else:
        remote.client.answer(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    remote.node.pass_time(0)
    [verification] = remote.node.partition("t").log.producers.verifications.values()
    assert (verification.in_flight, verification.is_known) == (0, True)


def test_batches_that_one_response_verifies_are_appended_before_later_verifications_remove_their_guards(
    remote: Remote,
) -> None:
    """A verification counts as finished in the turn of the loop in which its batch is appended, not before."""
    partition = remote.node.partition("t")
    producers, count = partition.log.producers, MAX_VERIFICATIONS + 10

    async def is_valid(producer_id: int) -> bool:
        transaction = Transaction(str(producer_id), producer_id, 0, VERIFY)
        outcome = remote.verification.verify_produce(transaction, {partition: 0})
        verified = outcome if isinstance(outcome, Verified) else await outcome
        producers.start_verification(count + producer_id, 0, 0, remote.node.now_ms(), supports_epoch_bump=False)
        return producers.verifications[producer_id].guard is verified.guards[partition]

    tasks = [remote.node.loop.create_task(is_valid(producer_id)) for producer_id in range(count)]
    remote.node.pass_time(0)
    remote.client.answer(0)
    assert all(remote.node.wait(task) for task in tasks)
    assert [len(names) for names in remote.client.ids] == [count]


class TestOnePartition:
    """As the group coordinator verifies the transaction of an offset commit."""

    def verify(self, remote: Remote, partition: Partition) -> Any:
        transaction = Transaction("id", 7, 0, TransactionOperation.ADD)
        return remote.node.loop.create_task(remote.verification.verify_one(transaction, partition, -1))

    def test_guard_is_that_of_the_partition(self, remote: Remote) -> None:
        partition = remote.node.partition("t")
        outcome = self.verify(remote, partition)
        remote.node.pass_time(0)
        remote.client.answer(0)
        assert remote.node.wait(outcome) is partition.log.producers.verifications[7].guard

    def test_open_transaction_needs_no_guard(self, remote: Remote) -> None:
        remote.node.append("t", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        assert remote.node.wait(self.verify(remote, remote.node.partition("t"))) is None
        assert remote.client.calls == []

    def test_error_is_the_coordinators(self, remote: Remote) -> None:
        outcome = self.verify(remote, remote.node.partition("t"))
        remote.node.pass_time(0)
        remote.client.answer(0, ErrorCode.CONCURRENT_TRANSACTIONS)
        with pytest.raises(KafkaError) as refused:
            remote.node.wait(outcome)
        assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
