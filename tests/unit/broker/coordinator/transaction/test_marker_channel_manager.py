from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest

from broker.coordinator.transaction.marker_channel_manager import TransactionMarkerChannelManager
from broker.coordinator.transaction.transaction_metadata import (
    TransactionalId,
    TransactionMetadata,
    TransactionState,
)
from broker.coordinator.transaction.transaction_partitions import TransactionPartitions
from controller.image import NO_LEADER
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from storage.checkpoint import TopicPartition
from tests.unit.broker.node import VirtualLoop

NODE_ID, OTHER_ID = 1, 2
RETRY_S = 0.11


class Rig:
    """The sender with brokers whose responses the test gives, and a coordinator that records what is complete."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.leaders: dict[TopicPartition, int | None] = {("x", 0): NODE_ID, ("y", 0): OTHER_ID, ("y", 1): OTHER_ID}
        self.epoch: int | None = 5
        self.completed: list[str] = []
        self.sent: list[tuple[int, WriteTxnMarkersRequest]] = []
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.failure: Exception = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        self.responses: list[asyncio.Future[Any]] = []
        self.holding = False
        self.written_at_once = True
        self.connected: list[int] = []
        self.lookups = 0
        """The number of times that a leader was looked up."""
        self.markers = TransactionMarkerChannelManager(
            self,
            node_id=NODE_ID,
            loop=self.loop,
            leader_of=self.leader_of,
            connect_broker=self.connect,  # type: ignore[arg-type]
            write_here=self.write_here,
        )

    def coordinator_epoch(self, transaction: TransactionalId) -> int | None:
        return self.epoch

    def leader_of(self, topic: str, index: int) -> int | None:
        self.lookups += 1
        return self.leaders[topic, index]

    def markers_written(self, transaction: TransactionalId) -> None:
        self.completed.append(transaction.name)

    def write_here(
        self, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
        self.sent.append((NODE_ID, request))
        if ErrorCode.KAFKA_STORAGE_ERROR in self.errors.values():
            raise self.failure
        response = self.response(request)
        if self.written_at_once:
            return response
        given: asyncio.Future[WriteTxnMarkersResponse] = self.loop.create_future()
        given.set_result(response)
        return given

    def connect(self, broker_id: int) -> Rig:
        self.connected.append(broker_id)
        return self

    def call(self, request: WriteTxnMarkersRequest, *, min_version: int) -> asyncio.Future[Any]:
        assert min_version == 1
        self.sent.append((OTHER_ID, request))
        future: asyncio.Future[Any] = self.loop.create_future()
        self.responses.append(future)
        if not self.holding:
            future.set_result(self.response(request))
        return future

    def close(self) -> None:
        self.connected.clear()

    def response(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        marker, topic = WriteTxnMarkersResponse.Marker, WriteTxnMarkersResponse.Marker.Topic
        return WriteTxnMarkersResponse(
            markers=[
                marker(
                    producer_id=one.producer_id,
                    topics=[
                        topic(
                            name=each.name,
                            partitions=[
                                topic.Partition(
                                    partition_index=index,
                                    error_code=self.errors.get((each.name, index), ErrorCode.NONE),
                                )
                                for index in each.partition_indexes
                            ],
                        )
                        for each in one.topics
                    ],
                )
                for one in request.markers
            ]
        )

    def add(self, name: str, *partitions: TopicPartition, producer_id: int = 7) -> None:
        metadata = TransactionMetadata(
            producer_id,
            3,
            60_000,
            TransactionState.PREPARE_COMMIT,
            TransactionPartitions.of(partitions),
            client_transaction_version=2,
        )
        self.markers.add(TransactionalId(name, metadata))

    def run(self, seconds: float = 0.001) -> None:
        for _ in range(4):
            self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def requests(self) -> list[str]:
        """Return the requests since the last call in short form: broker, and the partitions of each producer."""
        sent, self.sent = self.sent, []
        return [
            f"{broker}: "
            + ", ".join(
                f"{one.producer_id} {topic.name}{topic.partition_indexes}"
                for one in request.markers
                for topic in one.topics
            )
            for broker, request in sent
        ]


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.markers.stop()
    made.loop.close()


@pytest.mark.parametrize("at_once", [False, True])
def test_each_leader_gets_its_partitions(rig: Rig, at_once: bool) -> None:
    rig.written_at_once = at_once
    rig.add("t", ("x", 0), ("y", 0), ("y", 1))
    rig.run()
    assert rig.requests() == ["1: 7 x[0]", "2: 7 y[0, 1]"]
    assert (rig.completed, len(rig.markers)) == (["t"], 0)


def test_marker_has_the_decision_the_epochs_and_the_version(rig: Rig) -> None:
    rig.add("t", ("y", 0))
    rig.run()
    [(_, request)] = rig.sent
    [marker] = request.markers
    assert (marker.producer_epoch, marker.coordinator_epoch, marker.transaction_version) == (3, 5, 2)
    assert marker.transaction_result is True


def test_transaction_without_partitions_is_complete(rig: Rig) -> None:
    rig.add("t")
    assert rig.completed == []
    rig.run()
    assert (rig.completed, rig.requests()) == (["t"], [])


def test_transactions_of_a_turn_share_a_request(rig: Rig) -> None:
    rig.add("t", ("y", 0))
    rig.add("u", ("y", 0), producer_id=8)
    rig.run()
    assert rig.requests() == ["2: 7 y[0], 8 y[0]"]
    assert rig.completed == ["t", "u"]


def test_broker_gets_one_request_at_a_time(rig: Rig) -> None:
    rig.holding = True
    rig.add("t", ("y", 0))
    rig.run()
    rig.add("u", ("y", 0), producer_id=8)
    rig.add("v", ("y", 1), producer_id=9)
    rig.run()
    [(_, request)] = rig.sent
    assert rig.requests() == ["2: 7 y[0]"]
    rig.holding = False
    rig.responses[0].set_result(rig.response(request))
    rig.run()
    assert rig.requests() == ["2: 8 y[0], 9 y[1]"]
    assert rig.connected == [OTHER_ID]


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR]
)
def test_refused_marker_is_sent_again_to_the_new_leader(rig: Rig, error: ErrorCode) -> None:
    rig.errors["y", 0] = error
    rig.add("t", ("y", 0), ("y", 1))
    rig.run()
    assert rig.requests() == ["2: 7 y[0, 1]"]
    rig.errors.clear()
    rig.leaders["y", 0] = NODE_ID
    rig.run(RETRY_S)
    assert rig.requests() == ["1: 7 y[0]"]
    assert rig.completed == ["t"]


@pytest.mark.parametrize("loss", [None, KafkaError(ErrorCode.UNSUPPORTED_VERSION)])
def test_lost_request_is_sent_again(rig: Rig, loss: KafkaError | None) -> None:
    rig.holding = True
    rig.add("t", ("y", 0))
    rig.run()
    if loss is None:
        rig.responses[0].set_result(None)
    else:
        rig.responses[0].set_exception(loss)
    rig.holding = False
    rig.run(RETRY_S)
    assert rig.requests() == ["2: 7 y[0]", "2: 7 y[0]"]
    assert rig.completed == ["t"]


@pytest.mark.parametrize("failure", [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), OSError("unforeseen")])
def test_failed_local_write_is_done_again(rig: Rig, failure: Exception) -> None:
    rig.errors["x", 0] = ErrorCode.KAFKA_STORAGE_ERROR
    rig.failure = failure
    rig.add("t", ("x", 0))
    rig.run()
    rig.errors.clear()
    rig.run(RETRY_S)
    assert rig.requests() == ["1: 7 x[0]", "1: 7 x[0]"]
    assert rig.completed == ["t"]


def test_marker_waits_for_a_leader_without_a_timer(rig: Rig) -> None:
    """Thousands of transactions may wait for the partitions of one broker, for hours."""
    rig.leaders["y", 0] = NO_LEADER
    rig.add("t", ("y", 0))
    rig.run(RETRY_S)
    looked_up = rig.lookups
    rig.run(60)
    assert (rig.requests(), rig.completed, rig.lookups) == ([], [], looked_up)
    rig.leaders["y", 0] = OTHER_ID
    rig.markers.leaders_changed()
    rig.run()
    assert rig.completed == ["t"]


def test_partition_that_is_deleted_needs_no_marker(rig: Rig) -> None:
    rig.leaders["y", 0] = NO_LEADER
    rig.add("t", ("y", 0))
    rig.run()
    rig.leaders["y", 0] = None
    rig.markers.leaders_changed()
    rig.run()
    assert (rig.requests(), rig.completed) == ([], ["t"])


def test_nothing_is_sent_once_the_transaction_is_coordinated_elsewhere(rig: Rig) -> None:
    rig.leaders["y", 0] = NO_LEADER
    rig.add("t", ("y", 0))
    rig.run()
    rig.epoch = None
    rig.leaders["y", 0] = OTHER_ID
    rig.markers.leaders_changed()
    rig.run()
    assert (rig.requests(), rig.completed, len(rig.markers)) == ([], [], 0)


def test_markers_queued_behind_a_request_are_forgotten_when_the_coordinator_moves(rig: Rig) -> None:
    rig.holding = True
    rig.add("t", ("y", 0))
    rig.run()
    rig.add("u", ("y", 1), producer_id=8)
    rig.run()
    rig.epoch = None
    rig.responses[0].set_result(None)
    rig.run(RETRY_S)
    assert (rig.requests(), len(rig.markers)) == (["2: 7 y[0]"], 0)


def test_markers_of_a_transaction_that_was_dropped_are_not_sent_when_its_coordinator_returns(rig: Rig) -> None:
    """The coordinator has loaded the transaction again, and adds it anew."""
    rig.leaders["z", 0] = NO_LEADER
    rig.holding = True
    rig.add("t", ("y", 0))
    rig.run()
    rig.add("u", ("y", 1), ("z", 0), producer_id=8)
    rig.run()
    rig.epoch = None
    rig.responses[0].set_result(None)
    rig.run()
    assert (rig.requests(), len(rig.markers)) == (["2: 7 y[0]"], 0)
    rig.epoch = 6
    rig.leaders["z", 0] = OTHER_ID
    rig.markers.leaders_changed()
    rig.run()
    assert (rig.requests(), len(rig.markers)) == ([], 0)


def test_queued_markers_follow_their_partition_to_a_new_leader(rig: Rig) -> None:
    rig.holding = True
    rig.add("t", ("y", 0))
    rig.run()
    rig.add("u", ("y", 1), producer_id=8)
    rig.run()
    rig.leaders["y", 1] = NODE_ID
    rig.markers.leaders_changed()
    rig.run()
    assert (rig.requests(), rig.completed) == (["2: 7 y[0]", "1: 8 y[1]"], ["u"])


def test_request_has_at_most_fifty_transactions(rig: Rig) -> None:
    """They are completed in one turn of the loop."""
    for number in range(1_000):
        rig.add(f"t{number}", ("x", 0), producer_id=number)
    while len(rig.markers):
        rig.run()
    sizes = [len(request.markers) for _, request in rig.sent]
    assert (sum(sizes), max(sizes) <= 50) == (1_000, True)


def test_partition_with_a_newer_producer_epoch_needs_no_marker_and_the_others_get_theirs(rig: Rig) -> None:
    rig.errors = {("y", 0): ErrorCode.INVALID_PRODUCER_EPOCH, ("y", 1): ErrorCode.NOT_LEADER_OR_FOLLOWER}
    rig.add("t", ("y", 0), ("y", 1))
    rig.run()
    assert (rig.requests(), rig.completed) == (["2: 7 y[0, 1]"], [])
    rig.leaders["y", 1] = NODE_ID
    rig.errors.clear()
    rig.run(RETRY_S)
    assert (rig.requests(), rig.completed, len(rig.markers)) == (["1: 7 y[1]"], ["t"], 0)


def test_marker_is_sent_again_to_a_partition_with_a_newer_coordinator_epoch_until_this_one_is_higher(rig: Rig) -> None:
    rig.errors = {("y", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    rig.add("t", ("y", 0), ("y", 1))
    rig.run(RETRY_S)
    assert rig.requests() == ["2: 7 y[0, 1]", "2: 7 y[0]"]
    rig.epoch = 6
    rig.errors.clear()
    rig.run(2 * RETRY_S)
    assert [request.markers[0].coordinator_epoch for _, request in rig.sent] == [6]
    assert (rig.completed, len(rig.markers)) == (["t"], 0)


def test_fenced_marker_is_sent_again_after_a_backoff_that_doubles_up_to_ten_seconds(rig: Rig) -> None:
    rig.errors = {("y", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    rig.add("t", ("y", 0))
    sent_s, request_count = [], 0
    while rig.loop.time() < 40:
        rig.loop.run_until_complete(asyncio.sleep(0.05))
        rig.markers.leaders_changed()  # does not shorten the backoff
        if len(rig.sent) > request_count:
            sent_s.append(rig.loop.time())
            request_count = len(rig.sent)
    gaps_s = [later - earlier for earlier, later in itertools.pairwise(sent_s)]
    assert gaps_s == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10], abs=0.11)


def test_backoff_of_a_fenced_marker_begins_anew_after_another_response(rig: Rig) -> None:
    rig.errors = {("y", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    rig.add("t", ("y", 0))
    rig.run(5)
    rig.errors["y", 0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    rig.run(6.5)
    rig.errors["y", 0] = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    rig.run(RETRY_S)
    rig.requests()
    rig.run(RETRY_S)
    assert rig.requests() == ["2: 7 y[0]"]


def test_fenced_marker_is_sent_at_once_with_a_new_epoch(rig: Rig) -> None:
    rig.errors = {("y", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    rig.add("t", ("y", 0))
    rig.run(6)
    rig.requests()
    rig.epoch = 6
    rig.errors.clear()
    rig.markers.leaders_changed()
    rig.run()
    assert (rig.requests(), rig.completed) == (["2: 7 y[0]"], ["t"])


def test_epoch_that_has_changed_before_the_response_needs_no_backoff(rig: Rig) -> None:
    rig.errors = {("y", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    rig.add("t", ("y", 0))
    rig.run(5)
    rig.requests()
    rig.holding = True
    rig.run(6.5)
    [(_, request)] = rig.sent
    rig.epoch = 6
    rig.holding = False
    rig.responses[-1].set_result(rig.response(request))
    rig.errors.clear()
    rig.run(RETRY_S)
    assert (rig.completed, [one.markers[0].coordinator_epoch for _, one in rig.sent]) == (["t"], [5, 6])


def test_fenced_marker_is_forgotten_once_another_broker_is_the_coordinator(rig: Rig) -> None:
    rig.errors = {("y", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    rig.add("t", ("y", 0))
    rig.run()
    rig.epoch = None
    rig.run(RETRY_S)
    assert (rig.requests(), rig.completed, len(rig.markers)) == (["2: 7 y[0]"], [], 0)


def test_each_error_of_a_partition_is_logged_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "broker.coordinator.transaction")
    rig.leaders["y", 2] = OTHER_ID
    rig.errors = {
        ("x", 0): ErrorCode.INVALID_PRODUCER_EPOCH,
        ("y", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ("y", 1): ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ("y", 2): ErrorCode.UNKNOWN_SERVER_ERROR,
    }
    rig.add("t", ("x", 0), ("y", 0), ("y", 1), ("y", 2))
    rig.run(RETRY_S * 3)
    assert len(rig.requests()) > 3
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "x-0 refused the markers of 't': INVALID_PRODUCER_EPOCH"),
        ("WARNING", "y-0 refused the markers of 't': TRANSACTION_COORDINATOR_FENCED"),
        ("WARNING", "y-2 refused the markers of 't': UNKNOWN_SERVER_ERROR"),
    ]


def test_large_transaction_is_sent_in_several_requests(rig: Rig) -> None:
    partitions = [("z", index) for index in range(5_000)]
    rig.leaders |= dict.fromkeys(partitions, OTHER_ID)
    rig.add("t", *partitions)
    for _ in range(10):
        rig.run()
    sizes = [len(topic.partition_indexes) for _, request in rig.sent for one in request.markers for topic in one.topics]
    assert sum(sizes) == 5_000
    assert max(sizes) <= 2_000
    assert rig.completed == ["t"]
