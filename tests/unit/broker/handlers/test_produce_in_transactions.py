"""Produce of transactional batches: verification before the first of each partition (KIP-890)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.handlers import produce
from broker.network.connection import Connection
from broker.network.connection_protocol import DeferredResponse
from broker.replication import add_partitions_to_txn_manager
from controller.topic_names import TRANSACTION_STATE
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.headers import RequestHeader, decode_response_header, encode_request_header
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.primitives import read_parts
from protocol.record_batch import EndTxnMarker, build_batch
from storage.log.config import LogConfig
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.node import LISTENER, NODE_ID, START_MS, Node
from tests.unit.broker.transaction_node import PARTITIONS as STATE_PARTITIONS
from tests.unit.broker.transaction_node import TransactionNode

FOLLOWER = 2
PRODUCER = 7


class Coordinator:
    """Stands in for the transaction coordinator: answers with `codes`, or later if `pending`."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.codes: list[ErrorCode] = []
        self.pending: asyncio.Future[None] | None = None
        self.seen: list[tuple[str, int, int, bool, dict[str, list[int]]]] = []
        self.times: list[float] = []

    def wait(self) -> None:
        """Answer later requests only after `answer`."""
        self.pending = self.node.loop.create_future()

    def answer(self) -> None:
        assert self.pending is not None
        self.pending.set_result(None)
        self.pending = None

    def __call__(self, request: AddPartitionsToTxnRequest, version: int) -> Any:
        request = AddPartitionsToTxnRequest.decode(request.encode(version), version)
        [one] = request.transactions
        topics = {topic.name: topic.partitions for topic in one.topics}
        self.seen.append((one.transactional_id, one.producer_id, one.producer_epoch, one.verify_only, topics))
        self.times.append(self.node.loop.time())
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        response = AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResponse.Transaction(
                    transactional_id=one.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnResponse.Topic(
                            name=topic,
                            results_by_partition=[
                                AddPartitionsToTxnResponse.Topic.Partition(
                                    partition_index=index, partition_error_code=code
                                )
                                for index in indexes
                            ],
                        )
                        for topic, indexes in topics.items()
                    ],
                )
            ]
        )
        return response if self.pending is None else self._later(self.pending, response)

    async def _later(self, pending: asyncio.Future[None], response: AddPartitionsToTxnResponse) -> Any:
        await pending
        return response


@pytest.fixture
def node(new_node: NewNode) -> Node:
    node = new_node()
    node.start()
    node.create(TRANSACTION_STATE, partitions=3)
    node.create("t", partitions=3)
    return node


@pytest.fixture
def coordinator(node: Node) -> Coordinator:
    coordinator = Coordinator(node)
    node.broker.transaction_verification._call_here = coordinator
    return coordinator


def batch(
    sequence: int = 0, *, epoch: int = 0, producer_id: int = PRODUCER, value: bytes = b"v", txn: bool = True
) -> bytearray:
    return build_batch(
        [(None, value)],
        timestamp_ms=START_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=txn,
    )


def send(
    node: Node,
    batches: dict[int, bytearray],
    *,
    version: int = 12,
    acks: int = -1,
    topic: str = "t",
    transactional_id: str | None = "id",
) -> Any:
    """Produce to partitions of a topic; return the handler's result."""
    known = node.image.topic(topic)
    data = ProduceRequest.Topic(
        name=topic,
        topic_id=bytes(16) if known is None or version < 13 else known.topic_id,
        partition_data=[ProduceRequest.Topic.Partition(index=index, records=one) for index, one in batches.items()],
    )
    return node.query(
        ApiKey.PRODUCE, version, acks=acks, timeout_ms=1000, topic_data=[data], transactional_id=transactional_id
    )


def encoded(batches: dict[int, bytearray], version: int, topic: str = "t") -> memoryview:
    """Return the frame of a request."""
    partitions = [ProduceRequest.Topic.Partition(index=index, records=one) for index, one in batches.items()]
    topics = [ProduceRequest.Topic(name=topic, partition_data=partitions)]
    request = ProduceRequest(transactional_id="id", acks=-1, timeout_ms=1000, topic_data=topics)
    header = encode_request_header(RequestHeader(ApiKey.PRODUCE, version, 5, "me"))
    return memoryview(bytearray(header + request.encode(version)))


def dispatched(node: Node, batches: dict[int, bytearray], version: int = 12) -> dict[int, int]:
    """Produce through the dispatcher, which answers for a handler that raises; return the error codes."""
    parts = node.broker.dispatcher(encoded(batches, version), Connection(1, LISTENER, "127.0.0.1"))
    assert isinstance(parts, list)
    frame = read_parts(parts)
    _, body_at = decode_response_header(ApiKey.PRODUCE, version, frame[4:])
    return codes(ProduceResponse.decode(frame[4:], version, body_at))


def codes(response: Any) -> dict[int, int]:
    [topic] = response.responses
    return {one.index: one.error_code for one in topic.partition_responses}


def produced(node: Node, *batches: bytearray, **options: Any) -> dict[int, int]:
    response = node.wait(send(node, dict(enumerate(batches)), **options))
    return codes(response)


def ended(node: Node, *, index: int = 0, epoch: int = 0, committed: bool = True, producer_id: int = PRODUCER) -> None:
    node.replicas.append_marker(node.partition("t", index), producer_id, epoch, EndTxnMarker(committed, 0))


@pytest.mark.parametrize(("version", "verifies"), [(3, True), (11, True), (12, False), (13, False)])
def test_first_batch_is_verified_or_its_partition_added(
    node: Node, coordinator: Coordinator, version: int, verifies: bool
) -> None:
    answer = send(node, {0: batch(), 2: batch()}, version=version)
    assert not isinstance(answer, Awaitable)
    assert codes(answer) == {0: 0, 2: 0}
    assert coordinator.seen == [("id", PRODUCER, 0, verifies, {"t": [0, 2]})]
    assert [record.value for record in node.stored("t", 2)] == [b"v"]
    assert node.partition("t").log.last_stable_offset == 0


def test_later_batches_of_the_transaction_are_appended_without_the_coordinator(
    node: Node, coordinator: Coordinator
) -> None:
    produced(node, batch())
    assert produced(node, batch(1)) == {0: 0}
    assert len(coordinator.seen) == 1
    ended(node)
    assert produced(node, batch(2), version=11) == {0: 0}
    assert len(coordinator.seen) == 2


def plainly(node: Node, batches: dict[int, bytearray], version: int, topic: str = "t") -> Any:
    """Return the result of the fast path, None if it leaves the request to the handler."""
    header = RequestHeader(ApiKey.PRODUCE, version, 5, "me")
    body_at = len(encode_request_header(header))
    connection = Connection(1, LISTENER, "127.0.0.1")
    return produce.handle_frame(node.broker, header, connection, encoded(batches, version, topic), body_at)


@pytest.mark.parametrize("version", [9, 12])
def test_batches_of_the_open_transaction_take_the_fast_path(node: Node, coordinator: Coordinator, version: int) -> None:
    produced(node, batch(), batch())
    answer = plainly(node, {0: batch(1), 1: batch(1, value=b"new")}, version)
    assert isinstance(answer, bytes)
    _, body_at = decode_response_header(ApiKey.PRODUCE, version, answer[4:])
    assert codes(ProduceResponse.decode(answer[4:], version, body_at)) == {0: 0, 1: 0}
    assert [record.value for record in node.stored("t", 1)] == [b"v", b"new"]
    assert len(coordinator.seen) == 1


def test_other_batches_of_a_transactional_request_are_left_to_the_handler(node: Node, coordinator: Coordinator) -> None:
    produced(node, batch(), batch())
    others = [
        {0: batch(1), 2: batch()},  # begins in 2
        {0: batch(1), 1: batch(1, producer_id=PRODUCER + 1)},
        {0: batch(1), 1: batch(0, epoch=1)},
        {0: batch(1), 1: batch(1, txn=False)},
        {0: batch(1), 1: batch(1)[:60]},
        {0: batch(1), 5: batch(1)},
    ]
    assert [plainly(node, one, 12) for one in others] == [None] * len(others)
    assert node.partition("t").log.log_end_offset == 1


class TestCoordinatorOnThisBroker:
    """The fast path, where this broker coordinates the transaction of id `id`."""

    @pytest.fixture
    def producer(self, node: Node) -> ProducerIdAndEpoch:
        here = TransactionNode(node)
        producer = here.producer("id")
        assert node.wait(here.add(producer, ("t", 0), ("t", 1), name="id")) == ErrorCode.NONE
        return producer

    def test_first_batch_is_verified_and_appended_with_its_guard(
        self, node: Node, producer: ProducerIdAndEpoch
    ) -> None:
        first = batch(producer_id=producer.producer_id)
        assert isinstance(plainly(node, {0: first}, 11), bytes)
        assert [record.value for record in node.stored("t")] == [b"v"]
        assert node.partition("t").log.last_stable_offset == 0
        assert not node.partition("t").log.producers.verifications

    @pytest.mark.parametrize(
        ("produces", "version"),
        [(plainly, 11), (send, 11), (send, 12)],
        ids=["fast path", "verified by the handler", "added by the handler"],
    )
    def test_verification_is_finished_before_the_batch_is_refused(
        self, node: Node, producer: ProducerIdAndEpoch, produces: Any, version: int
    ) -> None:
        node.create("r", replicas=(NODE_ID, FOLLOWER), config=LogConfig(min_insync_replicas=2))
        node.shrink("r", [NODE_ID])
        if version == 11:
            assert node.wait(TransactionNode(node).add(producer, ("r", 0), name="id")) == ErrorCode.NONE
        answer = produces(node, {0: batch(producer_id=producer.producer_id)}, version=version, topic="r")
        assert not isinstance(answer, Awaitable)
        [verification] = node.partition("r").log.producers.verifications.values()
        assert (verification.in_flight, verification.is_known) == (0, True)

    def test_batch_that_is_not_in_the_transaction_is_left_to_the_handler(
        self, node: Node, producer: ProducerIdAndEpoch
    ) -> None:
        own = producer.producer_id
        others: list[dict[int, bytearray]] = [
            {2: batch(producer_id=own)},
            {0: batch(producer_id=own, epoch=1)},
            {0: batch(producer_id=own + 1)},
        ]
        assert [plainly(node, one, 11) for one in others] == [None] * 3
        assert node.wait(TransactionNode(node).end(producer, name="id", version=0)).error == ErrorCode.NONE
        node.pass_time(1)
        assert plainly(node, {0: batch(producer_id=own)}, 11) is None
        assert codes(node.wait(send(node, {0: batch(producer_id=own)}, version=11)))[0] != ErrorCode.NONE
        assert {key: node.partition("t", key).log.log_end_offset for key in range(3)} == {0: 1, 1: 1, 2: 0}

    def test_request_that_adds_its_partition_or_has_several_batches_is_left_to_the_handler(
        self, node: Node, producer: ProducerIdAndEpoch
    ) -> None:
        batches = {index: batch(producer_id=producer.producer_id) for index in range(2)}
        assert plainly(node, {0: batches[0]}, 12) is None
        assert plainly(node, batches, 11) is None

    def test_nothing_is_verified_if_verification_is_disabled(
        self, node: Node, producer: ProducerIdAndEpoch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(node.broker.transaction_verification, "_config", lambda name: False)
        assert plainly(node, {0: batch(producer_id=producer.producer_id)}, 11) is None

    def test_fenced_producer_is_left_to_the_handler(self, node: Node, producer: ProducerIdAndEpoch) -> None:
        ended(node, epoch=1, producer_id=producer.producer_id)
        assert plainly(node, {0: batch(producer_id=producer.producer_id)}, 11) is None


def test_batch_waits_for_the_coordinator_without_its_frame(node: Node, coordinator: Coordinator) -> None:
    coordinator.wait()
    buffer = encoded({0: batch()}, 12)
    connection = Connection(1, LISTENER, "127.0.0.1")
    response = node.broker.dispatcher(buffer, connection)
    assert isinstance(response, DeferredResponse)
    buffer[:] = bytes(len(buffer))
    node.pass_time(1)
    verification, memory = node.broker.transaction_verification, node.node.shared.server.request_memory
    assert (verification.pending_requests, verification.pending_bytes, memory.used_bytes) == (
        1,
        len(batch()),
        len(batch()),
    )
    assert node.partition("t").log.log_end_offset == 0
    coordinator.answer()
    node.wait(response.response)
    assert [record.value for record in node.stored("t")] == [b"v"]
    assert (verification.pending_requests, verification.pending_bytes, memory.used_bytes) == (0, 0, 0)


def test_partitions_with_the_open_transaction_do_not_wait(node: Node, coordinator: Coordinator) -> None:
    produced(node, batch())
    coordinator.wait()
    answer = send(node, {1: batch(value=b"new"), 0: batch(1), 5: batch()})
    assert isinstance(answer, Awaitable)
    assert node.partition("t", 0).log.log_end_offset == 2
    assert node.partition("t", 1).log.log_end_offset == 0
    assert node.broker.transaction_verification.pending_bytes == len(batch(value=b"new"))
    coordinator.answer()
    response = node.wait(answer)
    assert codes(response) == {1: 0, 0: 0, 5: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert [one.base_offset for one in response.responses[0].partition_responses] == [0, 1, -1]
    assert coordinator.seen[1:] == [("id", PRODUCER, 0, False, {"t": [1]})]


def test_response_waits_for_the_isr_after_the_verification(node: Node, coordinator: Coordinator) -> None:
    node.create("r", replicas=(NODE_ID, FOLLOWER))
    coordinator.wait()
    answer = send(node, {0: batch()}, topic="r")
    node.loop.call_later(1, coordinator.answer)
    node.loop.call_later(1.5, lambda: node.follower_fetch(node.partition("r"), FOLLOWER, 1))
    begun = node.loop.time()
    assert codes(node.wait(answer)) == {0: 0}
    assert node.loop.time() == pytest.approx(begun + 1.5, abs=0.01)


def test_rule_14_abort_during_the_verification_refuses_the_batch(node: Node, coordinator: Coordinator) -> None:
    coordinator.wait()
    answer = send(node, {0: batch()}, version=11)
    ended(node, committed=False)
    coordinator.answer()
    assert codes(node.wait(answer)) == {0: ErrorCode.INVALID_TXN_STATE}
    assert node.partition("t").log.log_end_offset == 1


def test_rule_14_late_batch_of_an_ended_transaction_is_refused(node: Node, coordinator: Coordinator) -> None:
    produced(node, batch(), version=11)
    ended(node, committed=False)
    coordinator.codes = [ErrorCode.INVALID_TXN_STATE]
    assert produced(node, batch(1), version=11) == {0: ErrorCode.INVALID_TXN_STATE}
    assert node.partition("t").log.log_end_offset == 2
    assert node.partition("t").log.last_stable_offset == 2


def test_rule_14_late_batch_of_the_epoch_before_is_refused_at_once(node: Node, coordinator: Coordinator) -> None:
    produced(node, batch())
    ended(node, epoch=1)
    assert produced(node, batch(1)) == {0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert len(coordinator.seen) == 1
    assert produced(node, batch(0, epoch=1)) == {0: 0}


def test_leadership_lost_during_the_verification_refuses_the_batch(node: Node, coordinator: Coordinator) -> None:
    node.create("r", replicas=(NODE_ID, FOLLOWER))
    coordinator.wait()
    answer = send(node, {0: batch()}, topic="r")
    node.elect("r", FOLLOWER)
    coordinator.answer()
    assert codes(node.wait(answer)) == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}


ABORTABLE = ErrorCode.TRANSACTION_ABORTABLE
NOT_ENOUGH = ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize(
    ("code", "version", "expected"),
    [
        (ErrorCode.INVALID_TXN_STATE, 12, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 12, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ABORTABLE, 12, ABORTABLE),
        (ABORTABLE, 11, ABORTABLE),
        (ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, NOT_ENOUGH),
        (ErrorCode.NOT_COORDINATOR, 12, NOT_ENOUGH),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 12, NOT_ENOUGH),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 11, NOT_ENOUGH),
    ],
)
def test_error_of_the_coordinator_is_one_that_producers_handle(
    node: Node, coordinator: Coordinator, code: ErrorCode, version: int, expected: ErrorCode
) -> None:
    coordinator.codes = [code]
    assert produced(node, batch(), version=version) == {0: expected}
    assert node.partition("t").log.log_end_offset == 0
    assert node.partition("t").topic_metrics.failed_produces == 1


def test_batch_after_a_retriable_failure_is_out_of_order(node: Node, coordinator: Coordinator) -> None:
    coordinator.codes = [ErrorCode.NOT_COORDINATOR]
    produced(node, batch(0))
    assert produced(node, batch(1)) == {0: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
    assert produced(node, batch(0)) == {0: 0}


def test_concurrent_transaction_is_awaited_for_a_short_time(node: Node, coordinator: Coordinator) -> None:
    coordinator.codes = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
    begun = node.loop.time()
    assert produced(node, batch()) == {0: 0}
    assert [time - begun for time in coordinator.times] == pytest.approx([0, 0.02, 0.04, 0.06], abs=0.001)


def test_client_retries_a_concurrent_transaction_that_takes_longer(node: Node, coordinator: Coordinator) -> None:
    coordinator.codes = [ErrorCode.CONCURRENT_TRANSACTIONS] * 100
    begun = node.loop.time()
    assert produced(node, batch()) == {0: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert node.loop.time() - begun == pytest.approx(0.1, abs=0.005)
    assert len(coordinator.seen) == 6


def test_without_a_coordinator_the_error_is_retriable(node: Node, coordinator: Coordinator) -> None:
    for index in range(3):
        node.elect(TRANSACTION_STATE, -1, index=index)
    assert produced(node, batch()) == {0: NOT_ENOUGH}
    node.remove(TRANSACTION_STATE)
    assert produced(node, batch()) == {0: NOT_ENOUGH}
    assert coordinator.seen == []


def test_broker_that_stops_answers_batches_whose_coordinator_does_not_respond(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect(*_: Any, **__: Any) -> Any:
        await node.loop.create_future()

    monkeypatch.setattr(node.loop, "create_connection", connect)
    node.register(FOLLOWER, "127.0.0.1", 9)
    for index in range(3):
        node.elect(TRANSACTION_STATE, FOLLOWER, index=index)
    waiting = node.loop.create_task(send(node, {0: batch()}))
    node.pass_time(1.0)
    assert not waiting.done()
    node.loop.create_task(node.broker.expire_requests(5.0))
    node.pass_time(1.0)
    assert codes(waiting.result()) == {0: NOT_ENOUGH}
    assert produced(node, batch()) == {0: NOT_ENOUGH}


@pytest.mark.parametrize(("version", "requests"), [(11, 0), (12, 1)])
def test_verification_can_be_disabled(new_node: NewNode, version: int, requests: int) -> None:
    node = new_node(transaction_partition_verification_enable="false")
    node.start()
    node.create(TRANSACTION_STATE)
    node.create("t")
    coordinator = Coordinator(node)
    node.broker.transaction_verification._call_here = coordinator
    assert produced(node, batch(), version=version) == {0: 0}
    assert len(coordinator.seen) == requests


def test_batches_of_several_producers_are_refused(node: Node, coordinator: Coordinator) -> None:
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert dispatched(node, {0: batch(), 1: batch(producer_id=8)}) == {0: mapping, 1: mapping}
    assert coordinator.seen == []
    assert node.partition("t").log.log_end_offset == 0


def test_batch_without_a_transaction_is_appended_as_usual(node: Node, coordinator: Coordinator) -> None:
    assert produced(node, batch(txn=False)) == {0: 0}
    assert coordinator.seen == []


def test_transactional_batches_need_a_transactional_id(node: Node, coordinator: Coordinator) -> None:
    produced(node, batch())
    unauthorized = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert produced(node, batch(1), transactional_id=None) == {0: unauthorized}
    assert produced(node, batch(1), transactional_id=None, version=8) == {0: unauthorized}
    assert coordinator.seen[1:] == []


def test_too_small_isr_refuses_a_verified_batch(node: Node, coordinator: Coordinator) -> None:
    node.create("r", replicas=(NODE_ID, FOLLOWER), config=LogConfig(min_insync_replicas=2))
    node.shrink("r", [NODE_ID])
    assert produced(node, batch(), topic="r") == {0: NOT_ENOUGH}
    assert len(coordinator.seen) == 1


def test_number_of_waiting_requests_is_limited(
    node: Node, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(add_partitions_to_txn_manager, "MAX_PENDING_REQUESTS", 2)
    refused_beyond_two(node, coordinator)


def test_bytes_of_waiting_requests_are_limited(
    node: Node, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(add_partitions_to_txn_manager, "MAX_PENDING_BYTES", 2 * len(batch()))
    refused_beyond_two(node, coordinator)


def refused_beyond_two(node: Node, coordinator: Coordinator) -> None:
    coordinator.wait()
    waiting = [send(node, {index: batch(producer_id=index)}, transactional_id=f"id{index}") for index in range(2)]
    assert dispatched(node, {2: batch()}) == {2: NOT_ENOUGH}
    coordinator.answer()
    assert [codes(node.wait(one)) for one in waiting] == [{0: 0}, {1: 0}]
    assert produced(node, batch(producer_id=9), transactional_id="id9", version=11) == {0: 0}


def test_request_larger_than_the_limit_waits_alone(
    node: Node, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(add_partitions_to_txn_manager, "MAX_PENDING_BYTES", 1)
    coordinator.wait()
    answer = send(node, {0: batch()})
    coordinator.answer()
    assert codes(node.wait(answer)) == {0: 0}


def test_acks_0_has_no_response_after_the_verification_either(node: Node, coordinator: Coordinator) -> None:
    coordinator.wait()
    answer = send(node, {0: batch()}, acks=0)
    coordinator.answer()
    assert node.wait(answer) is None
    assert node.partition("t").log.log_end_offset == 1


def test_failing_coordinator_is_an_unknown_server_error(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    def fails(request: AddPartitionsToTxnRequest, version: int) -> Any:
        raise ZeroDivisionError

    node.broker.transaction_verification._call_here = fails
    assert produced(node, batch()) == {0: ErrorCode.UNKNOWN_SERVER_ERROR}
    assert "ZeroDivisionError" in caplog.text


class TestWithTheCoordinator:
    """The transaction coordinator of the same broker."""

    @pytest.fixture
    def node(self, new_node: NewNode) -> Node:
        node = new_node()
        node.start()
        return node

    def test_produce_adds_partitions_and_each_transaction_has_its_epoch(self, node: Node) -> None:
        transactions = TransactionNode(node).host()
        transactions.settle()
        producer_id, epoch = transactions.producer("id")
        for committed in (True, False):
            batches = {index: batch(producer_id=producer_id, epoch=epoch) for index in range(2)}
            answer = send(node, batches, topic="x")
            assert not isinstance(answer, Awaitable)  # nothing waits on a broker alone
            assert codes(answer) == {0: 0, 1: 0}
            assert transactions.state("id") == "Ongoing"
            ended = node.wait(transactions.end(ProducerIdAndEpoch(producer_id, epoch), name="id", commit=committed))
            late = {0: batch(1, producer_id=producer_id, epoch=epoch)}
            transactions.settle()
            assert codes(node.wait(send(node, late, topic="x"))) == {0: ErrorCode.INVALID_PRODUCER_EPOCH}
            epoch = ended.producer_epoch
            log = node.partition("x", 1).log
            assert log.last_stable_offset == log.log_end_offset

    def test_batch_waits_until_the_added_partition_is_committed(self, node: Node) -> None:
        transactions = TransactionNode(node).host(replicated=True)
        transactions.replicate()
        for tenths in range(10):
            node.loop.call_later(tenths / 10, replicate_state, node)
        producer_id, epoch = transactions.producer("id")
        node.pass_time(1)
        answer = send(node, {0: batch(producer_id=producer_id, epoch=epoch)}, topic="x")
        assert isinstance(answer, Awaitable)
        assert node.partition("x").log.log_end_offset == 0
        node.loop.call_later(1, replicate_state, node)
        assert codes(node.wait(answer)) == {0: 0}
        assert node.partition("x").log.log_end_offset == 1

    def test_older_producer_has_to_add_the_partition_before(self, node: Node) -> None:
        transactions = TransactionNode(node).host(level=0)
        transactions.settle()
        producer = transactions.producer("id")
        first = {0: batch(producer_id=producer.producer_id, epoch=producer.epoch)}
        assert codes(node.wait(send(node, first, topic="x", version=11))) == {0: ABORTABLE}
        assert codes(node.wait(send(node, first, topic="x", version=10))) == {0: ErrorCode.INVALID_TXN_STATE}
        node.wait(transactions.add(producer, ("x", 0), name="id"))
        assert codes(node.wait(send(node, first, topic="x", version=11))) == {0: 0}


def replicate_state(node: Node) -> None:
    """Let the follower fetch the log of the coordinator to its end."""
    for index in range(STATE_PARTITIONS):
        partition = node.partition(TRANSACTION_STATE, index)
        node.follower_fetch(partition, FOLLOWER, partition.log.log_end_offset)
