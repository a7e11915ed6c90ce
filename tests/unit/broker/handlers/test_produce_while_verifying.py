"""Requests of a producer that come while the first batch of its transaction is verified."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from broker.replication import add_partitions_to_txn_manager
from protocol.errors import ErrorCode, KafkaError
from tests.unit.broker.handlers.test_produce_in_transactions import (
    PRODUCER,
    Coordinator,
    batch,
    codes,
    coordinator,
    node,
    produced,
    send,
)
from tests.unit.broker.node import Node

__all__ = ["coordinator", "node"]


def sent(node: Node, *requests: dict[int, bytearray]) -> list[Any]:
    """Return the pending results of requests with these batches by partition."""
    answers = [send(node, batches) for batches in requests]
    tasks = [node.loop.create_task(one) if isinstance(one, Awaitable) else one for one in answers]  # type: ignore[arg-type]
    node.pass_time(0.001)
    return tasks


def test_batches_of_a_partition_are_appended_in_their_order(node: Node, coordinator: Coordinator) -> None:
    coordinator.wait()
    first = sent(node, {0: batch(value=b"a")}, {0: batch(1, value=b"b")}, {0: batch(2, value=b"c")})
    verification = node.broker.transaction_verification
    assert (verification.pending_requests, verification.pending_bytes) == (3, 3 * len(batch()))
    coordinator.answer()
    node.pass_time(0)
    answers = [*first, *sent(node, {0: batch(3, value=b"d")})]
    assert [codes(node.wait(one)) for one in answers] == [{0: 0}] * 4
    assert [record.value for record in node.stored("t")] == [b"a", b"b", b"c", b"d"]
    assert len(coordinator.seen) == 1
    assert (verification.pending_requests, verification.pending_bytes, verification.pending) == (0, 0, {})


def test_order_is_kept_at_each_turn_of_the_loop(node: Node, coordinator: Coordinator) -> None:
    coordinator.wait()
    answers = sent(node, {0: batch()}, {0: batch(1)})
    coordinator.answer()
    for sequence in range(2, 12):
        node.loop.run_until_complete(node.loop.create_task(asyncio.sleep(0)))
        one = send(node, {0: batch(sequence)})
        answers.append(node.loop.create_task(one) if isinstance(one, Awaitable) else one)  # type: ignore[arg-type]
    assert [codes(node.wait(one)) for one in answers] == [{0: 0}] * 12


def test_batches_of_other_partitions_and_producers_do_not_wait(node: Node, coordinator: Coordinator) -> None:
    node.wait(send(node, {1: batch()}))
    coordinator.wait()
    held = sent(node, {0: batch()})
    assert codes(send(node, {1: batch(1)})) == {1: 0}
    other = send(node, {0: batch(producer_id=PRODUCER + 1, txn=False)}, transactional_id=None)
    assert codes(other) == {0: 0}
    coordinator.answer()
    assert [codes(node.wait(one)) for one in held] == [{0: 0}]


@pytest.mark.parametrize("is_open", [False, True])
def test_batches_behind_a_request_that_waits_for_another_partition_wait_too(
    node: Node, coordinator: Coordinator, is_open: bool
) -> None:
    """The second request waits for partition 0 with its batch for partition 1, which the third one continues."""
    if is_open:
        node.wait(send(node, {1: batch()}))
    coordinator.wait()
    at = int(is_open)
    answers = sent(node, {0: batch()}, {0: batch(1), 1: batch(at)}, {1: batch(at + 1)})
    coordinator.answer()
    assert [codes(node.wait(one)) for one in answers] == [{0: 0}, {0: 0, 1: 0}, {1: 0}]
    assert node.broker.transaction_verification.pending == {}


def test_if_the_first_batch_is_refused_so_are_the_others_until_it_is_repeated(
    node: Node, coordinator: Coordinator
) -> None:
    coordinator.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    coordinator.wait()
    answers = sent(node, {0: batch()}, {0: batch(1)}, {0: batch(2)})
    coordinator.answer()
    found = [codes(node.wait(one)) for one in answers]
    late = {0: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
    assert found == [{0: ErrorCode.NOT_ENOUGH_REPLICAS}, late, late]
    assert [codes(node.wait(send(node, {0: batch(sequence)}))) for sequence in range(3)] == [{0: 0}] * 3
    assert node.broker.transaction_verification.pending == {}


def test_requests_behind_one_that_is_verified_again_keep_their_order(node: Node, coordinator: Coordinator) -> None:
    """The second request waits for the coordinator, the third for the second, and the fourth for the third."""
    coordinator.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    coordinator.wait()
    answers = sent(node, {0: batch()}, {0: batch()}, {0: batch(1)})
    coordinator.answer()
    coordinator.wait()
    node.pass_time(0.001)
    answers += sent(node, {0: batch(2)})
    coordinator.answer()
    assert [codes(node.wait(one)) for one in answers] == [{0: ErrorCode.NOT_ENOUGH_REPLICAS}, {0: 0}, {0: 0}, {0: 0}]
    assert node.broker.transaction_verification.pending == {}


def test_repeated_request_gets_the_offset_of_the_first(node: Node, coordinator: Coordinator) -> None:
    produced(node, batch(producer_id=PRODUCER + 1, txn=False), transactional_id=None)
    coordinator.wait()
    answers = sent(node, {0: batch()}, {0: batch()})
    coordinator.answer()
    rows = [node.wait(one).responses[0].partition_responses[0] for one in answers]
    assert [(row.error_code, row.base_offset) for row in rows] == [(0, 1), (0, 1)]


def test_they_count_for_the_limits(node: Node, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add_partitions_to_txn_manager, "MAX_PENDING_REQUESTS", 1)
    coordinator.wait()
    [held] = sent(node, {0: batch()})
    with pytest.raises(KafkaError) as refused:
        send(node, {0: batch(1)})
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.answer()
    assert codes(node.wait(held)) == {0: 0}
