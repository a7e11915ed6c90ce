"""AddPartitionsToTxn requests to coordinators: batches and results."""

from __future__ import annotations

import sys

import pytest

from broker.replication.verification_queue import (
    PartitionErrors,
    PendingVerification,
    TransactionOperation,
    VerificationQueue,
    complete,
    produce_operation,
    request_of,
    txn_offset_commit_operation,
)
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

VERIFY, ABORTABLE, ADD = TransactionOperation
COORDINATOR = 3


class Results:
    """The errors that each transaction was completed with, in order."""

    def __init__(self) -> None:
        self.of: list[tuple[str, PartitionErrors]] = []

    def pending(
        self,
        transactional_id: str = "a",
        *partitions: tuple[str, int],
        epoch: int = 0,
        operation: TransactionOperation = ABORTABLE,
    ) -> PendingVerification:
        def completed(errors: PartitionErrors) -> None:
            self.of.append((transactional_id, errors))

        return PendingVerification(transactional_id, 7, epoch, partitions or (("t", 0),), operation, completed)


@pytest.fixture
def results() -> Results:
    return Results()


@pytest.fixture
def queue() -> VerificationQueue:
    return VerificationQueue()


def response(transactional_id: str, *codes: tuple[str, int, ErrorCode]) -> AddPartitionsToTxnResponse:
    topic = AddPartitionsToTxnResponse.Topic
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResponse.Transaction(
                transactional_id=transactional_id,
                topic_results=[
                    topic(
                        name=name,
                        results_by_partition=[topic.Partition(partition_index=index, partition_error_code=code)],
                    )
                    for name, index, code in codes
                ],
            )
        ]
    )


@pytest.mark.parametrize(("version", "operation"), [(3, VERIFY), (10, VERIFY), (11, ABORTABLE), (12, ADD), (13, ADD)])
def test_operation_of_a_produce_version(version: int, operation: TransactionOperation) -> None:
    assert produce_operation(version) is operation


@pytest.mark.parametrize(("version", "operation"), [(0, VERIFY), (3, VERIFY), (4, ABORTABLE), (5, ADD)])
def test_operation_of_a_txn_offset_commit_version(version: int, operation: TransactionOperation) -> None:
    assert txn_offset_commit_operation(version) is operation


def test_each_coordinator_has_one_request_in_flight(queue: VerificationQueue, results: Results) -> None:
    first, second, third = (results.pending(name) for name in "abc")
    queue.add(COORDINATOR, first)
    assert queue.take(COORDINATOR) == [first]
    queue.add(COORDINATOR, second)
    queue.add(COORDINATOR, third)
    assert queue.take(COORDINATOR) == []
    other = results.pending("d")
    queue.add(4, other)
    assert queue.take(4) == [other]
    queue.finished(COORDINATOR)
    assert queue.take(COORDINATOR) == [second, third]
    queue.finished(COORDINATOR)
    assert queue.take(COORDINATOR) == []
    assert results.of == []


@pytest.mark.parametrize(
    ("earlier", "later", "taken", "error"),
    [
        (0, 0, 1, ErrorCode.NETWORK_EXCEPTION),
        (0, 1, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 0, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_transactional_id_waits_once(
    queue: VerificationQueue, results: Results, earlier: int, later: int, taken: int, error: ErrorCode
) -> None:
    both = [results.pending("a", ("t", 0), epoch=earlier), results.pending("a", ("t", 0), epoch=later)]
    for pending in both:
        queue.add(COORDINATOR, pending)
    assert queue.take(COORDINATOR) == [both[taken]]
    assert results.of == [("a", {both[1 - taken].partitions[0]: error})]


def test_other_partitions_of_a_transaction_join_the_wait(queue: VerificationQueue, results: Results) -> None:
    for index in range(3):
        queue.add(COORDINATOR, results.pending("a", ("t", index)))
    [one] = queue.take(COORDINATOR)
    assert [*one.partitions] == [("t", 0), ("t", 1), ("t", 2)]
    one.complete({("t", 1): ErrorCode.INVALID_TXN_STATE})
    assert results.of == [("a", {}), ("a", {("t", 1): ErrorCode.INVALID_TXN_STATE}), ("a", {})]


@pytest.mark.parametrize("operations", [(VERIFY, ABORTABLE), (ABORTABLE, VERIFY)])
def test_partitions_that_are_verified_join_whatever_the_client_supports_and_get_its_errors(
    queue: VerificationQueue, results: Results, operations: tuple[TransactionOperation, TransactionOperation]
) -> None:
    for index, operation in enumerate(operations):
        queue.add(COORDINATOR, results.pending("a", ("t", index), operation=operation))
    code = ErrorCode.TRANSACTION_ABORTABLE
    complete(queue.take(COORDINATOR), response("a", ("t", 0, code), ("t", 1, code)))
    expected = {VERIFY: ErrorCode.INVALID_TXN_STATE, ABORTABLE: code}
    assert results.of == [("a", {("t", index): expected[operation]}) for index, operation in enumerate(operations)]


def test_partitions_to_add_and_to_verify_are_in_two_requests(queue: VerificationQueue, results: Results) -> None:
    """Such as those of Produce 12 and of TxnOffsetCommit 4."""
    pending = [
        results.pending("a", ("t", index), operation=operation) for index, operation in enumerate((ADD, ABORTABLE, ADD))
    ]
    for one in pending:
        queue.add(COORDINATOR, one)
    requests = []
    while batch := queue.take(COORDINATOR):
        requests.append([(one.adds, [*one.partitions]) for one in batch])
        queue.finished(COORDINATOR)
    assert requests == [[(True, [("t", 0), ("t", 2)])], [(False, [("t", 1)])]]
    assert results.of == []


def test_higher_epoch_ends_the_waits_of_both_kinds_and_lower_one_is_refused(
    queue: VerificationQueue, results: Results
) -> None:
    for index, operation in enumerate((ADD, VERIFY)):
        queue.add(COORDINATOR, results.pending("a", ("t", index), epoch=1, operation=operation))
    queue.add(COORDINATOR, results.pending("a", ("t", 2), epoch=0, operation=ADD))
    newest = results.pending("a", ("t", 3), epoch=2, operation=ADD)
    queue.add(COORDINATOR, newest)
    assert queue.take(COORDINATOR) == [newest]
    assert results.of == [("a", {("t", index): ErrorCode.INVALID_PRODUCER_EPOCH}) for index in (2, 0, 1)]


def test_more_partitions_than_the_recursion_limit_join_one_wait(queue: VerificationQueue, results: Results) -> None:
    count = sys.getrecursionlimit() + 1
    for index in range(count):
        queue.add(1, results.pending("a", ("t", index)))
    [pending] = queue.take(1)
    pending.fail(ErrorCode.NOT_COORDINATOR)
    assert results.of == [("a", {("t", index): ErrorCode.NOT_COORDINATOR}) for index in range(count)]


def test_transactional_id_in_flight_can_wait_again(queue: VerificationQueue, results: Results) -> None:
    queue.add(COORDINATOR, results.pending())
    queue.take(COORDINATOR)
    queue.add(COORDINATOR, results.pending())
    assert results.of == []


def test_request_has_the_partitions_of_each_transaction(results: Results) -> None:
    request = request_of(
        [
            results.pending("a", ("t", 0), ("u", 2), ("t", 1), epoch=5),
            results.pending("b", ("t", 3), operation=ADD),
        ]
    )
    decoded = AddPartitionsToTxnRequest.decode(request.encode(4), 4)
    assert [
        (
            one.transactional_id,
            one.producer_id,
            one.producer_epoch,
            one.verify_only,
            [(topic.name, topic.partitions) for topic in one.topics],
        )
        for one in decoded.transactions
    ] == [("a", 7, 5, True, [("t", [0, 1]), ("u", [2])]), ("b", 7, 0, False, [("t", [3])])]


def test_partitions_without_an_error_are_verified(results: Results) -> None:
    answer = response("a", ("t", 0, ErrorCode.NONE), ("t", 1, ErrorCode.INVALID_TXN_STATE))
    complete([results.pending("a", ("t", 0), ("t", 1))], answer)
    assert results.of == [("a", {("t", 1): ErrorCode.INVALID_TXN_STATE})]


@pytest.mark.parametrize(
    ("operation", "code", "expected"),
    [
        (ADD, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (VERIFY, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (VERIFY, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ADD, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ADD, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_errors_are_those_that_producers_of_the_version_handle(
    results: Results, operation: TransactionOperation, code: ErrorCode, expected: ErrorCode
) -> None:
    complete([results.pending(operation=operation)], response("a", ("t", 0, code)))
    assert results.of == [("a", {("t", 0): expected})]


def test_lost_response_fails_all_transactions(results: Results) -> None:
    complete([results.pending("a"), results.pending("b")], None)
    error = {("t", 0): ErrorCode.NETWORK_EXCEPTION}
    assert results.of == [("a", error), ("b", error)]


def test_transaction_without_a_result_is_lost(results: Results) -> None:
    complete([results.pending("a"), results.pending("b")], response("b"))
    assert results.of == [("a", {("t", 0): ErrorCode.NETWORK_EXCEPTION}), ("b", {})]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_error_of_the_whole_request_is_that_of_all_transactions(
    results: Results, code: ErrorCode, expected: ErrorCode
) -> None:
    complete([results.pending()], AddPartitionsToTxnResponse(error_code=code))
    assert results.of == [("a", {("t", 0): expected})]
