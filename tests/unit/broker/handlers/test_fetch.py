"""Fetch, sent by a client; sessions are in `tests/unit/broker/replication/test_fetch_sessions.py`."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any, cast

import pytest

from broker.handlers.fetch import handle
from broker.network.connection import RequestContext
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.primitives import Part, part_size
from protocol.record_batch import EndTxnMarker, iter_batches
from protocol.records.metadata import RemoveTopicRecord
from storage.log.config import LogConfig
from storage.log.transaction_marker import build_marker
from tests.logs import append_marker
from tests.unit.broker.node import LISTENER, Node, stored_bytes, topic_records

Wanted = FetchRequest.Topic.Partition
ALL_VERSIONS = range(4, 19)


def wanted(index: int = 0, offset: int = 0, max_bytes: int = 1 << 20, **more: Any) -> Wanted:
    return Wanted(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, **more)


def query(node: Node, topics: dict[str, list[Wanted]], *, version: int = 12, **more: Any) -> Any:
    """Fetch from topics by name; from version 13 on by their topic ids in the metadata image."""
    known = {name: node.image.topic(name) for name in topics}
    fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1} | more
    return node.query(
        ApiKey.FETCH,
        version,
        topics=[
            FetchRequest.Topic(
                topic=name, topic_id=topic.topic_id if (topic := known[name]) else b"?" * 16, partitions=partitions
            )
            for name, partitions in topics.items()
        ],
        **fields,
    )


def fetch(node: Node, topics: dict[str, list[Wanted]], **more: Any) -> Any:
    return node.wait(query(node, topics, **more))


def fetched(node: Node, one: Wanted, topic: str = "t", **more: Any) -> Any:
    """Fetch from one partition; return its part of the response."""
    [found] = fetch(node, {topic: [one]}, **more).responses
    [partition] = found.partitions
    return partition


def offsets(partition: Any) -> list[int]:
    """Return the base offsets of the batches in a partition's part of a response."""
    return [header.base_offset for _, header in iter_batches(stored_bytes(partition.records))]


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_every_version_returns_appended_records(node: Node, version: int) -> None:
    node.create("t")
    node.append("t")
    response = fetch(node, {"t": [wanted()]}, version=version)
    [partition] = response.responses[0].partitions
    assert (partition.error_code, partition.high_watermark, partition.last_stable_offset) == (0, 1, 1)
    assert partition.log_start_offset == 0
    assert offsets(partition) == [0]
    response.encode(version)


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_read_committed_response_lists_aborted_transactions(node: Node, version: int) -> None:
    node.create("t")
    end = partial(append_marker, node.partition("t").log, leader_epoch=1, now_ms=node.now_ms())
    for producer_id, committed in ((7, False), (8, True), (9, False)):
        node.append("t")
        node.append("t", producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
        end(build_marker(producer_id, 0, EndTxnMarker(committed, 0), node.now_ms()))
    node.partition("t").advance_high_watermark()

    def aborted(offset: int, isolation_level: int = 1) -> list[tuple[int, int]] | None:
        found = fetched(node, wanted(offset=offset), version=version, isolation_level=isolation_level)
        assert offsets(found)[0] == offset
        reported = found.aborted_transactions
        return None if reported is None else [(one.producer_id, one.first_offset) for one in reported]

    assert aborted(0) == [(7, 1), (9, 7)]
    assert aborted(2) == [(7, 1), (9, 7)]
    assert aborted(3) == [(9, 7)]
    assert aborted(0, isolation_level=0) is None


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_records_are_returned_as_file_slices(node: Node, version: int) -> None:
    topic_id = node.create("t")
    node.append("t")
    topics = [FetchRequest.Topic(topic="t", topic_id=topic_id, partitions=[wanted()])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics)
    outcome = handle(node.broker, RequestContext(ApiKey.FETCH, version, 7, None, 1, LISTENER, ""), request)
    parts = outcome.encode_parts(version) if isinstance(outcome, FetchResponse) else cast("list[Part]", outcome)
    slices = [part for part in parts if not isinstance(part, (bytes, bytearray, memoryview))]
    assert [part_size(piece) for piece in slices] == [node.partition("t").log.size_bytes]


def test_fetch_at_the_log_end_returns_no_records_and_the_high_watermark(node: Node) -> None:
    node.create("t")
    node.append("t")
    partition = fetched(node, wanted(offset=1))
    assert (partition.error_code, partition.high_watermark, partition.records) == (0, 1, b"")


def test_fetch_starts_at_the_batch_that_contains_the_offset(node: Node) -> None:
    node.create("t")
    node.append("t", (None, b"a"), (None, b"b"), (None, b"c"))
    node.append("t")
    assert offsets(fetched(node, wanted(offset=2))) == [0, 3]


@pytest.mark.parametrize("offset", [-1, 2, 100])
def test_an_offset_outside_the_log_is_out_of_range(node: Node, offset: int) -> None:
    node.create("t")
    node.append("t")
    partition = fetched(node, wanted(offset=offset))
    assert partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (partition.high_watermark, partition.last_stable_offset, partition.log_start_offset) == (-1, -1, -1)


def test_an_offset_before_the_log_start_is_out_of_range(node: Node) -> None:
    node.create("t")
    for _ in range(3):
        node.append("t")
    node.replicas.delete_records(node.partition("t"), 2)
    assert fetched(node, wanted(offset=1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetched(node, wanted(offset=2)).log_start_offset == 2


class TestLimits:
    """A log of five batches of equal size."""

    @pytest.fixture
    def size(self, node: Node) -> int:
        node.create("t", partitions=2)
        for index in (0, 1):
            for _ in range(5):
                node.append("t", (None, bytes(1000)), index=index)
        return node.partition("t").log.size_bytes // 5

    def test_partition_returns_whole_batches_up_to_its_limit(self, node: Node, size: int) -> None:
        assert offsets(fetched(node, wanted(max_bytes=3 * size + 10))) == [0, 1, 2]

    def test_max_bytes_bounds_all_partitions_together(self, node: Node, size: int) -> None:
        response = fetch(node, {"t": [wanted(0), wanted(1)]}, max_bytes=7 * size + 10)
        assert [offsets(part) for part in response.responses[0].partitions] == [[0, 1, 2, 3, 4], [0, 1]]

    def test_fetch_max_bytes_of_the_broker_bounds_the_response(
        self, node: Node, size: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(node.broker.settings.values, "fetch.max.bytes", 2 * size)
        assert offsets(fetched(node, wanted())) == [0, 1]

    @pytest.mark.parametrize("limits", [{"max_bytes": 1}, {"max_bytes": 0}])
    def test_rule_27_first_batch_is_returned_even_if_larger_than_the_request_limit(
        self, node: Node, size: int, limits: dict[str, int]
    ) -> None:
        response = fetch(node, {"t": [wanted(0), wanted(1)]}, **limits)
        assert [offsets(part) for part in response.responses[0].partitions] == [[0], []]

    def test_rule_27_first_batch_is_returned_even_if_larger_than_the_partition_limit(
        self, node: Node, size: int
    ) -> None:
        response = fetch(node, {"t": [wanted(0, max_bytes=1), wanted(1, max_bytes=1)]})
        assert [offsets(part) for part in response.responses[0].partitions] == [[0], []]

    def test_rule_27_first_batch_belongs_to_the_first_partition_with_records(self, node: Node, size: int) -> None:
        response = fetch(node, {"t": [wanted(0, offset=5), wanted(1)]}, max_bytes=1)
        assert [offsets(part) for part in response.responses[0].partitions] == [[], [0]]


class TestWaiting:
    @pytest.fixture
    def node(self, node: Node) -> Node:
        node.create("t", partitions=2)
        return node

    def test_fetch_with_min_bytes_available_does_not_wait(self, node: Node) -> None:
        node.append("t")
        assert not isinstance(query(node, {"t": [wanted()]}, max_wait_ms=500), Awaitable)

    def test_fetch_without_partitions_does_not_wait(self, node: Node) -> None:
        assert not isinstance(query(node, {}, max_wait_ms=500), Awaitable)

    def test_min_bytes_0_does_not_wait(self, node: Node) -> None:
        assert not isinstance(query(node, {"t": [wanted()]}, max_wait_ms=500, min_bytes=0), Awaitable)

    def test_append_completes_the_fetch(self, node: Node) -> None:
        waiting = query(node, {"t": [wanted(0), wanted(1)]}, max_wait_ms=500)
        node.loop.call_later(0.2, lambda: node.append("t", index=1))
        response = node.wait(waiting)
        assert [offsets(part) for part in response.responses[0].partitions] == [[], [0]]
        assert node.loop.time() == pytest.approx(0.2, abs=0.01)

    def test_response_is_sent_in_the_purgatory_run_that_completes_the_fetch(self, node: Node) -> None:
        waiting = query(node, {"t": [wanted()]}, max_wait_ms=500)
        answered: list[Any] = []
        waiting.add_done_callback(answered.append)
        node.append("t")
        assert not answered
        node.purgatory.run(0.0)
        assert answered == [waiting]

    def test_fetch_completed_by_another_request_is_answered_after_it(self, node: Node) -> None:
        opened = fetch(node, {"t": [wanted()]}, session_epoch=0)
        waiting = query(node, {}, max_wait_ms=500, session_id=opened.session_id, session_epoch=1)
        answered: list[Any] = []
        waiting.add_done_callback(answered.append)
        query(node, {}, max_wait_ms=500, session_id=opened.session_id, session_epoch=0)
        assert not answered
        node.pass_time(0)
        assert answered == [waiting]

    def test_fetch_expires_after_max_wait(self, node: Node) -> None:
        response = node.wait(query(node, {"t": [wanted()]}, max_wait_ms=500))
        assert [offsets(part) for part in response.responses[0].partitions] == [[]]
        assert node.loop.time() == pytest.approx(0.5, abs=0.01)

    def test_fetch_waits_until_min_bytes_are_available(self, node: Node) -> None:
        node.append("t", (None, bytes(300)))
        waiting = query(node, {"t": [wanted(0), wanted(1)]}, max_wait_ms=5000, min_bytes=1000)
        for second in (1, 2, 3):
            node.loop.call_later(second, lambda: node.append("t", (None, bytes(300)), index=1))
        response = node.wait(waiting)
        assert [offsets(part) for part in response.responses[0].partitions] == [[0], [0, 1]]
        assert node.loop.time() == pytest.approx(2.0, abs=0.01)

    def test_bytes_above_the_partition_limit_do_not_count_towards_min_bytes(self, node: Node) -> None:
        waiting = query(node, {"t": [wanted(max_bytes=100)]}, max_wait_ms=5000, min_bytes=400)
        for second in range(1, 5):
            node.loop.call_later(second, lambda: node.append("t", (None, bytes(300))))
        node.wait(waiting)
        assert node.loop.time() == pytest.approx(5.0, abs=0.01)

    def test_min_bytes_is_capped_at_max_bytes(self, node: Node) -> None:
        node.append("t", (None, bytes(300)))
        assert not isinstance(query(node, {"t": [wanted()]}, max_wait_ms=500, min_bytes=1000, max_bytes=200), Awaitable)

    def test_expired_fetch_returns_fewer_than_min_bytes(self, node: Node) -> None:
        waiting = query(node, {"t": [wanted()]}, max_wait_ms=500, min_bytes=10_000)
        node.loop.call_later(0.2, lambda: node.append("t"))
        assert offsets(node.wait(waiting).responses[0].partitions[0]) == [0]
        assert node.loop.time() == pytest.approx(0.5, abs=0.01)

    def test_response_has_all_records_appended_in_one_loop_iteration(self, node: Node) -> None:
        waiting = query(node, {"t": [wanted(0), wanted(1)]}, max_wait_ms=500)

        def burst() -> None:
            for index in (0, 1, 0):
                node.append("t", index=index)

        node.loop.call_later(0.1, burst)
        response = node.wait(waiting)
        assert [offsets(part) for part in response.responses[0].partitions] == [[0, 1], [0]]

    def test_fetch_with_an_error_does_not_wait(self, node: Node) -> None:
        response = query(node, {"t": [wanted(0), wanted(7)]}, max_wait_ms=500)
        assert [part.error_code for part in response.responses[0].partitions] == [0, 3]

    def test_topic_deletion_completes_the_fetch(self, node: Node) -> None:
        waiting = query(node, {"t": [wanted()]}, max_wait_ms=500)
        node.loop.call_later(0.1, node.remove, "t")
        [partition] = node.wait(waiting).responses[0].partitions
        assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert node.loop.time() == pytest.approx(0.1, abs=0.01)

    def test_append_to_a_recreated_topic_completes_the_fetch(self, node: Node) -> None:
        waiting = query(node, {"t": [wanted(offset=0)]}, max_wait_ms=1_000)
        recreated = topic_records("t", b"2" * 16)
        node.commit(RemoveTopicRecord(topic_id=node.partition("t").topic_id), *recreated)
        node.pass_time(0.1)
        assert not waiting.done()
        node.append("t")
        node.pass_time(0.1)
        assert offsets(waiting.result().responses[0].partitions[0]) == [0]

    def test_new_leader_epoch_completes_fetches_with_the_old_one(self, node: Node) -> None:
        waiting = query(node, {"t": [wanted(current_leader_epoch=0)]}, max_wait_ms=500)
        node.loop.call_later(0.1, node.elect, "t", 1)
        [partition] = node.wait(waiting).responses[0].partitions
        assert partition.error_code == ErrorCode.FENCED_LEADER_EPOCH

    def test_completed_fetch_has_no_watchers(self, node: Node) -> None:
        for _ in range(3):
            node.wait(query(node, {"t": [wanted(0), wanted(1)]}, max_wait_ms=500))
        assert node.purgatory._watchers == {}

    def test_cancelled_fetch_has_no_watchers(self, node: Node) -> None:
        waiting = query(node, {"t": [wanted()]}, max_wait_ms=500)
        waiting.cancel()
        node.pass_time(0)
        assert node.purgatory._watchers == {}


class TestTopicIds:
    def test_unused_topic_id_is_unknown(self, node: Node) -> None:
        assert fetched(node, wanted(), version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID

    def test_response_contains_the_topic_id(self, node: Node) -> None:
        topic_id = node.create("t")
        response = fetch(node, {"t": [wanted()]}, version=13)
        assert response.responses[0].topic_id == topic_id

    def test_id_of_a_deleted_topic_is_unknown_even_if_the_name_exists_again(self, node: Node) -> None:
        old_id = node.create("t", topic_id=b"1" * 16)
        node.remove("t")
        node.create("t", topic_id=b"2" * 16)
        node.append("t")
        topics = [FetchRequest.Topic(topic_id=old_id, partitions=[wanted()])]
        response = node.answer(ApiKey.FETCH, 13, max_wait_ms=0, min_bytes=1, topics=topics)
        [partition] = response.responses[0].partitions
        assert (partition.error_code, partition.records) == (ErrorCode.UNKNOWN_TOPIC_ID, b"")


class TestLeaderEpochs:
    @pytest.fixture
    def node(self, node: Node) -> Node:
        """Return a node whose log has offsets 0 and 1 of epoch 0 and offset 2 of epoch 2."""
        node.create("t")
        node.append("t")
        node.append("t")
        node.elect("t", 1)
        node.elect("t", 1)
        node.append("t")
        return node

    @pytest.mark.parametrize(
        ("epoch", "code"),
        [
            (-1, ErrorCode.NONE),
            (2, ErrorCode.NONE),
            (1, ErrorCode.FENCED_LEADER_EPOCH),
            (3, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ],
    )
    def test_current_leader_epoch_is_checked(self, node: Node, epoch: int, code: ErrorCode) -> None:
        assert fetched(node, wanted(current_leader_epoch=epoch)).error_code == code

    @pytest.mark.parametrize(
        ("last_epoch", "offset", "diverging"),
        [
            (0, 2, (-1, -1)),  # a position at the end of epoch 0 still exists
            (0, 1, (-1, -1)),
            (0, 3, (0, 2)),  # epoch 0 ends at 2 in this log
            (1, 3, (0, 2)),  # epoch 1 has no records in this log
            (2, 3, (-1, -1)),
        ],
    )
    def test_diverged_reader_gets_the_diverging_epoch_and_its_end_offset(
        self, node: Node, last_epoch: int, offset: int, diverging: tuple[int, int]
    ) -> None:
        partition = fetched(node, wanted(offset=offset, last_fetched_epoch=last_epoch))
        assert partition.error_code == 0
        assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == diverging
        assert (offsets(partition) == []) == (diverging != (-1, -1) or offset == 3)

    def test_diverged_reader_gets_the_high_watermark_after_truncation(self, node: Node) -> None:
        parted, cut = (wanted(offset=3, last_fetched_epoch=epoch) for epoch in (1, 2))
        session = node.wait(query(node, {"t": [parted]}, session_epoch=0)).session_id
        reported = node.wait(query(node, {"t": [cut]}, session_id=session, session_epoch=1))
        assert reported.responses[0].partitions[0].high_watermark == 3

    def test_last_fetched_epoch_above_the_latest_epoch_is_out_of_range(self, node: Node) -> None:
        partition = fetched(node, wanted(offset=3, last_fetched_epoch=9))
        assert partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_fetch_of_a_diverged_reader_does_not_wait(self, node: Node) -> None:
        one = wanted(offset=3, last_fetched_epoch=0)
        assert not isinstance(query(node, {"t": [one]}, max_wait_ms=500), Awaitable)


class TestNotLeader:
    @pytest.fixture
    def node(self, node: Node) -> Node:
        node.register(2, "other.example", 9094)
        node.create("t", replicas=(1, 2), leader=2)
        return node

    def test_response_has_current_leader_epoch_and_endpoint(self, node: Node) -> None:
        node.create("elsewhere", replicas=(2,), leader=2)
        response = fetch(node, {"elsewhere": [wanted()]}, version=16)
        [refused] = response.responses[0].partitions
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (2, 0)
        assert [(end.node_id, end.host, end.port) for end in response.node_endpoints] == [(2, "other.example", 9094)]
        response.encode(16)

    def test_follower_serves_consumers_from_version_11(self, node: Node) -> None:
        assert fetched(node, wanted(), version=11).error_code == 0
        assert fetched(node, wanted(), version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


class TestIsolation:
    """Broker 1 is the leader; broker 2 is in the ISR and has the first of two records."""

    @pytest.fixture
    def node(self, node: Node) -> Node:
        node.create("t", replicas=(1, 2))
        node.append("t")
        node.append("t")
        node.follower_fetch(node.partition("t"), 2, 1, 0)
        return node

    @pytest.mark.parametrize("isolation_level", [0, 1])
    def test_consumers_read_up_to_the_high_watermark(self, node: Node, isolation_level: int) -> None:
        partition = fetched(node, wanted(), isolation_level=isolation_level)
        assert (offsets(partition), partition.high_watermark) == ([0], 1)

    def test_fetch_above_the_high_watermark_waits(self, node: Node) -> None:
        waiting = query(node, {"t": [wanted(offset=1)]}, max_wait_ms=500)
        node.loop.call_later(0.1, node.follower_fetch, node.partition("t"), 2, 2, 0)
        assert offsets(node.wait(waiting).responses[0].partitions[0]) == [1]
        assert node.loop.time() == pytest.approx(0.1, abs=0.01)

    def test_only_read_committed_responses_have_aborted_transactions(self, node: Node) -> None:
        assert fetched(node, wanted(), isolation_level=0).aborted_transactions is None
        assert fetched(node, wanted(), isolation_level=1).aborted_transactions == []

    def test_uncommitted_append_does_not_complete_consumer_fetches(self, node: Node) -> None:
        waiting = query(node, {"t": [wanted(offset=1)]}, max_wait_ms=500)
        node.loop.call_later(0.1, lambda: node.append("t"))
        assert offsets(node.wait(waiting).responses[0].partitions[0]) == []
        assert node.loop.time() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("version", "code"), [(9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (10, ErrorCode.NONE)])
def test_a_zstd_topic_needs_version_10(node: Node, version: int, code: ErrorCode) -> None:
    node.create("t", config=LogConfig(compression_type="zstd"))
    assert fetched(node, wanted(), version=version).error_code == code
