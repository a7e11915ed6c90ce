"""ListOffsets, sent by a client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.compression import Compression
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.record import Record
from protocol.record_batch import EndTxnMarker
from tests.unit.broker.node import Node

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
NOTHING = (0, -1, -1, -1)


def request(
    node: Node, *wanted: tuple[int, int], version: int = 11, epoch: int = -1, topic: str = "t", **more: Any
) -> Any:
    """Send ListOffsets for (partition, timestamp) pairs of one topic."""
    partitions = [
        ListOffsetsRequest.Topic.Partition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
        for index, timestamp in wanted
    ]
    fields = {"replica_id": -1, "isolation_level": 0} | more
    topics = [ListOffsetsRequest.Topic(name=topic, partitions=partitions)]
    return node.answer(ApiKey.LIST_OFFSETS, version, topics=topics, **fields).topics[0].partitions


def found(node: Node, timestamp: int, **more: Any) -> tuple[int, int, int, int]:
    """Return (error code, offset, timestamp, leader epoch) for partition 0."""
    [answer] = request(node, (0, timestamp), **more)
    return answer.error_code, answer.offset, answer.timestamp, answer.leader_epoch


@pytest.fixture
def node(node: Node) -> Node:
    """Return a node with batches of records at timestamps 100, 300, 200 | 250, 400 | 150; the last has epoch 1."""
    node.create("t")
    append(node, 100, 300, 200)
    append(node, 250, 400)
    node.elect("t", 1)
    append(node, 150)
    return node


def append(node: Node, *timestamps: int) -> None:
    node.append("t", *(Record(0, timestamp, None, b"v") for timestamp in timestamps))


@pytest.mark.parametrize(
    ("timestamp", "offset", "found_timestamp", "epoch"),
    [
        (0, 0, 100, 0),
        (100, 0, 100, 0),
        (101, 1, 300, 0),
        (300, 1, 300, 0),
        (301, 4, 400, 0),
        (400, 4, 400, 0),
        (401, -1, -1, -1),
    ],
)
def test_timestamp_finds_the_first_record_at_or_after_it(
    node: Node, timestamp: int, offset: int, found_timestamp: int, epoch: int
) -> None:
    assert found(node, timestamp) == (0, offset, found_timestamp, epoch)


@pytest.mark.parametrize(
    ("timestamp", "answer"),
    [
        (LATEST, (0, 6, -1, 1)),
        (EARLIEST, (0, 0, -1, 0)),
        (MAX_TIMESTAMP, (0, 4, 400, 0)),
        (EARLIEST_LOCAL, (0, 0, -1, 0)),
        (LATEST_TIERED, NOTHING),
        (EARLIEST_PENDING, NOTHING),
    ],
)
def test_negative_timestamps_mean_log_start_and_end(
    node: Node, timestamp: int, answer: tuple[int, int, int, int]
) -> None:
    assert found(node, timestamp) == answer


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_latest_offset_in_both_isolation_levels_is_committed(node: Node, isolation_level: int) -> None:
    assert found(node, LATEST, isolation_level=isolation_level)[1] == 6


def test_rule_22_read_committed_offsets_end_at_the_first_open_transaction(node: Node) -> None:
    transaction = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    node.append("t", Record(0, 500, None, b"v"), **transaction)
    append(node, 600)

    def latest(isolation_level: int) -> list[tuple[int, int, int, int]]:
        timestamps = (LATEST, MAX_TIMESTAMP, 450, 550)
        return [found(node, timestamp, isolation_level=isolation_level) for timestamp in timestamps]

    uncommitted = [(0, 8, -1, 1), (0, 7, 600, 1), (0, 6, 500, 1), (0, 7, 600, 1)]
    assert latest(0) == uncommitted
    assert latest(1) == [(0, 6, -1, 1), NOTHING, NOTHING, NOTHING]
    node.replicas.append_marker(node.partition("t"), 7, 0, EndTxnMarker(False, 0))
    assert latest(1)[0] == (0, 9, -1, 1)
    assert latest(1)[2] == (0, 6, 500, 1)  # of an aborted transaction, as in Kafka


def test_deleted_records_of_an_open_transaction_do_not_hide_the_log_start(node: Node) -> None:
    node.append("t", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(node, 600)
    node.replicas.delete_records(node.partition("t"), 8)
    assert found(node, LATEST, isolation_level=1) == (0, 8, -1, 1)
    append(node, 700)
    assert found(node, LATEST, isolation_level=1) == (0, 8, -1, 1)
    assert found(node, LATEST, isolation_level=0) == (0, 9, -1, 1)


def test_earliest_offset_is_the_log_start(node: Node) -> None:
    node.replicas.delete_records(node.partition("t"), 5)
    assert found(node, EARLIEST) == (0, 5, -1, 1)
    assert found(node, 0) == (0, 5, 150, 1)


def test_an_empty_log_has_no_largest_timestamp(node: Node) -> None:
    node.create("empty")
    assert found(node, MAX_TIMESTAMP, topic="empty") == NOTHING
    assert found(node, 0, topic="empty") == NOTHING
    assert found(node, LATEST, topic="empty") == (0, 0, -1, 0)


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_finds_log_start_and_end(node: Node, version: int) -> None:
    assert found(node, LATEST, version=version)[:2] == (0, 6)
    assert found(node, EARLIEST, version=version)[:2] == (0, 0)


@pytest.mark.parametrize(
    ("timestamp", "since"), [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING, 11)]
)
def test_special_timestamp_of_a_later_version_is_refused(node: Node, timestamp: int, since: int) -> None:
    assert found(node, timestamp, version=since - 1)[0] == ErrorCode.UNSUPPORTED_VERSION
    assert found(node, timestamp, version=since)[0] == ErrorCode.NONE


def test_undefined_negative_timestamp_is_refused(node: Node) -> None:
    assert found(node, -7)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_only_the_repeated_partition_is_refused(node: Node) -> None:
    node.create("u", partitions=2)
    answers = request(node, (0, LATEST), (1, LATEST), (0, EARLIEST), topic="u")
    assert [(answer.partition_index, answer.error_code) for answer in answers] == [
        (0, ErrorCode.INVALID_REQUEST),
        (1, ErrorCode.NONE),
    ]


def test_unknown_topic_or_partition_is_refused(node: Node) -> None:
    assert found(node, LATEST, topic="missing")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert request(node, (9, LATEST))[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(0, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.NONE), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_the_leader_epoch_is_checked(node: Node, epoch: int, code: ErrorCode) -> None:
    assert found(node, LATEST, epoch=epoch)[0] == code


class TestReplicas:
    """Broker 1 is the leader; broker 2 is in the ISR and has two of three records."""

    @pytest.fixture
    def node(self, node: Node) -> Node:
        node.remove("t")
        node.create("t", replicas=(1, 2))
        append(node, 100)
        append(node, 200)
        append(node, 300)
        node.follower_fetch(node.partition("t"), 2, 2, 0)
        return node

    def test_consumers_get_committed_offsets_only(self, node: Node) -> None:
        assert found(node, LATEST)[1] == 2
        assert found(node, 201) == NOTHING
        assert found(node, MAX_TIMESTAMP) == NOTHING

    def test_replicas_get_the_log_end(self, node: Node) -> None:
        assert found(node, LATEST, replica_id=2)[1] == 3
        assert found(node, 201, replica_id=2)[1] == 2

    def test_new_leader_has_no_latest_offset_until_records_of_earlier_epochs_are_committed(self, node: Node) -> None:
        node.elect("t", 2)
        node.elect("t", 1)
        assert found(node, LATEST)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
        assert found(node, LATEST, version=4)[0] == ErrorCode.LEADER_NOT_AVAILABLE
        assert found(node, 201)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
        assert found(node, 101) == (0, 1, 200, 0)
        assert found(node, EARLIEST)[:2] == (0, 0)
        node.follower_fetch(node.partition("t"), 2, 3, 0)
        assert found(node, LATEST)[:2] == (0, 3)

    def test_follower_answers_only_the_debugging_replica_id(self, node: Node) -> None:
        node.elect("t", 2)
        assert found(node, LATEST)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert found(node, LATEST, replica_id=-2)[:2] == (0, 3)


class TestLongSearches:
    """One batch with more records than one step reads; the last record has the largest timestamp."""

    COUNT = 10_000

    @pytest.fixture
    def node(self, node: Node) -> Node:
        node.create("many")
        records = [Record(0, min(number, 1), None, b"") for number in range(self.COUNT - 1)]
        node.append("many", *records, Record(0, 9, None, b""), compression=Compression.ZSTD)
        return node

    def query(self, node: Node, version: int = 11, **more: Any) -> Any:
        partition = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=2)
        fields = {"replica_id": -1, "isolation_level": 0, "timeout_ms": 0} | more
        topics = [ListOffsetsRequest.Topic(name="many", partitions=[partition])]
        return node.query(ApiKey.LIST_OFFSETS, version, topics=topics, **fields)

    def test_other_requests_are_served_during_a_search(self, node: Node) -> None:
        outcome = self.query(node)
        assert isinstance(outcome, Awaitable)
        assert found(node, LATEST, topic="many")[1] == self.COUNT
        [answer] = node.wait(outcome).topics[0].partitions
        assert (answer.error_code, answer.offset, answer.timestamp) == (0, self.COUNT - 1, 9)

    def test_search_stops_at_the_request_timeout(self, node: Node) -> None:
        outcome = self.query(node, timeout_ms=1)
        node.pass_time(1)
        [answer] = node.wait(outcome).topics[0].partitions
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT

    @pytest.mark.parametrize(
        ("happens", "code"),
        [
            (lambda node: node.remove("many"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
            (lambda node: node.elect("many", 2), ErrorCode.NOT_LEADER_OR_FOLLOWER),
            (lambda node: node.partition("many").log.truncate_to(0), ErrorCode.NOT_LEADER_OR_FOLLOWER),
            (lambda node: node.append("many", (None, b"more")), ErrorCode.NONE),
        ],
        ids=["deleted", "led by another", "truncated", "appended to"],
    )
    def test_search_survives_or_fails_after_a_partition_change(
        self, node: Node, happens: Callable[[Node], object], code: ErrorCode
    ) -> None:
        outcome = self.query(node)
        happens(node)
        [answer] = node.wait(outcome).topics[0].partitions
        assert answer.error_code == code
        assert all(directory.failure is None for directory in node.logs.directories)

    def test_several_short_searches_run_in_several_loop_iterations(self, node: Node) -> None:
        node.create("wide", partitions=8)
        for index in range(8):
            node.append("wide", (None, b"v"), index=index)
        wanted = [ListOffsetsRequest.Topic.Partition(partition_index=index, timestamp=0) for index in range(8)]
        topics = [ListOffsetsRequest.Topic(name="wide", partitions=wanted)]
        outcome = node.query(ApiKey.LIST_OFFSETS, 11, replica_id=-1, isolation_level=0, topics=topics)
        assert isinstance(outcome, Awaitable)
        assert [answer.offset for answer in node.wait(outcome).topics[0].partitions] == [0] * 8

    def test_searches_of_many_partitions_run_in_steps(self, node: Node) -> None:
        node.create("wide", partitions=100)
        wanted = [ListOffsetsRequest.Topic.Partition(partition_index=index, timestamp=LATEST) for index in range(100)]
        topics = [ListOffsetsRequest.Topic(name="wide", partitions=wanted)]
        outcome = node.query(ApiKey.LIST_OFFSETS, 11, replica_id=-1, isolation_level=0, topics=topics)
        assert isinstance(outcome, Awaitable)
        assert len(node.wait(outcome).topics[0].partitions) == 100
