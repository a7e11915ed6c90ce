"""Incremental fetches (KIP-227), through the Fetch handler as a client sees them."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from tests.unit.broker.node import Node, stored_bytes


class Fetcher:
    """A client with one session: it names a partition only when its fetch state changes."""

    def __init__(self, node: Node, version: int = 12) -> None:
        self.node = node
        self.version = version
        self.session_id = 0
        self.epoch = 0

    def query(
        self,
        topics: dict[str, dict[int, int]] | None = None,
        forgotten: dict[str, list[int]] | None = None,
        *,
        max_wait_ms: int = 0,
        **more: Any,
    ) -> Any:
        """Send the next fetch; `topics` maps topic and partition to fetch offsets."""
        fields = {"session_id": self.session_id, "session_epoch": self.epoch, "min_bytes": 1} | more
        self.epoch += 1
        return self.node.query(
            ApiKey.FETCH,
            self.version,
            max_wait_ms=max_wait_ms,
            topics=[
                FetchRequest.Topic(
                    topic=name,
                    topic_id=self.topic_id(name),
                    partitions=[
                        FetchRequest.Topic.Partition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
                        for index, offset in partitions.items()
                    ],
                )
                for name, partitions in (topics or {}).items()
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(topic=name, topic_id=self.topic_id(name), partitions=indexes)
                for name, indexes in (forgotten or {}).items()
            ],
            **fields,
        )

    def topic_id(self, name: str) -> bytes:
        topic = self.node.image.topic(name)
        return topic.topic_id if topic is not None else bytes(16)

    def response(self, *arguments: Any, **more: Any) -> Any:
        response = self.node.wait(self.query(*arguments, **more))
        response.encode(self.version)
        self.session_id = response.session_id or self.session_id
        return response

    def fetch(self, *arguments: Any, **more: Any) -> dict[int, tuple[int, int]]:
        """Fetch; return (bytes of records, high watermark) of each partition, in response order."""
        response = self.response(*arguments, **more)
        assert response.error_code == 0
        return {
            part.partition_index: (len(stored_bytes(part.records)), part.high_watermark)
            for topic in response.responses
            for part in topic.partitions
        }


@pytest.fixture(params=[12, 13], ids=["names", "ids"])
def fetcher(node: Node, request: pytest.FixtureRequest) -> Fetcher:
    node.create("t", partitions=3)
    return Fetcher(node, request.param)


def appended(node: Node, index: int) -> int:
    """Append a batch to a partition of t; return its size in bytes."""
    before = node.partition("t", index).log.size_bytes
    node.append("t", index=index)
    return node.partition("t", index).log.size_bytes - before


def test_first_response_has_every_partition_and_session_id(node: Node, fetcher: Fetcher) -> None:
    assert fetcher.fetch({"t": {0: 0, 1: 0, 2: 0}}) == {0: (0, 0), 1: (0, 0), 2: (0, 0)}
    assert fetcher.session_id > 0


def test_later_responses_have_only_changed_partitions(node: Node, fetcher: Fetcher) -> None:
    fetcher.fetch({"t": {0: 0, 1: 0, 2: 0}})
    size = appended(node, 1)
    assert fetcher.fetch() == {1: (size, 1)}
    assert fetcher.fetch({"t": {1: 1}}) == {}


def test_records_are_sent_again_if_fetch_offset_does_not_advance(node: Node, fetcher: Fetcher) -> None:
    fetcher.fetch({"t": {0: 0, 1: 0, 2: 0}})
    size = appended(node, 1)
    assert fetcher.fetch() == fetcher.fetch() == {1: (size, 1)}


def test_partitions_with_records_move_to_end_of_session(node: Node, fetcher: Fetcher) -> None:
    size = appended(node, 0)
    appended(node, 1)
    appended(node, 2)
    assert fetcher.fetch({"t": {0: 0, 1: 0, 2: 0}}, max_bytes=size) == {0: (size, 1), 1: (0, 1), 2: (0, 1)}
    assert list(fetcher.fetch(max_bytes=size)) == [1]
    assert list(fetcher.fetch(max_bytes=size)) == [2]
    assert list(fetcher.fetch(max_bytes=size)) == [0]


def test_records_beyond_request_limit_are_sent_in_next_response(node: Node, fetcher: Fetcher) -> None:
    fetcher.fetch({"t": {0: 0, 1: 0, 2: 0}})
    size = appended(node, 0)
    appended(node, 1)
    assert fetcher.fetch(max_bytes=size) == {0: (size, 1), 1: (0, 1)}
    assert fetcher.fetch({"t": {0: 1}}, max_bytes=size) == {1: (size, 1)}
    assert fetcher.fetch({"t": {1: 1}}, max_bytes=size) == {}


def test_follower_receives_records_once_with_several_requests_in_flight(node: Node) -> None:
    node.create("t", replicas=(1, 2))
    fetcher = Fetcher(node, 13)
    fetcher.fetch({"t": {0: 0}}, replica_id=2)
    size = appended(node, 0)
    assert fetcher.fetch(replica_id=2) == {0: (size, 0)}
    assert fetcher.fetch(replica_id=2) == {}
    appended(node, 0)
    assert fetcher.fetch({"t": {0: 1}}, replica_id=2) == {0: (size, 1)}


def test_session_adds_and_forgets_partitions(node: Node, fetcher: Fetcher) -> None:
    fetcher.fetch({"t": {0: 0}})
    assert fetcher.fetch({"t": {2: 0}}) == {2: (0, 0)}
    sizes = [appended(node, index) for index in range(3)]
    assert fetcher.fetch({}, {"t": [0]}) == {2: (sizes[2], 1)}


def test_changed_log_start_offset_is_sent(node: Node, fetcher: Fetcher) -> None:
    appended(node, 0)
    fetcher.fetch({"t": {0: 1}})
    node.replicas.delete_records(node.partition("t"), 1)
    response = fetcher.response()
    assert response.responses[0].partitions[0].log_start_offset == 1
    assert fetcher.fetch() == {}


def test_log_start_offset_advanced_by_retention_is_sent(node: Node, fetcher: Fetcher) -> None:
    appended(node, 0)
    fetcher.fetch({"t": {0: 1}})
    node.partition("t").log.advance_log_start(1)
    node.replicas.check_log_starts()
    node.pass_time(0)
    assert fetcher.response().responses[0].partitions[0].log_start_offset == 1


def test_partition_error_is_sent_in_each_response_until_resolved(node: Node, fetcher: Fetcher) -> None:
    fetcher.fetch({"t": {0: 0, 1: 0}})
    node.elect("t", 2)
    fetcher.version = fetcher.version if fetcher.version > 12 else 10
    for _ in range(2):
        response = fetcher.response({"t": {0: 5}})
        [partition] = response.responses[0].partitions
        assert partition.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_OUT_OF_RANGE)
    node.elect("t", 1)
    assert fetcher.fetch({"t": {0: 0}}) == {0: (0, 0)}


class TestWaiting:
    def test_an_append_wakes_a_session_whose_partitions_it_did_not_name(self, node: Node, fetcher: Fetcher) -> None:
        fetcher.fetch({"t": {0: 0, 1: 0}})
        waiting = fetcher.query(max_wait_ms=500)
        node.loop.call_later(0.1, lambda: node.append("t", index=1))
        [topic] = node.wait(waiting).responses
        assert [part.partition_index for part in topic.partitions] == [1]
        assert node.loop.time() == pytest.approx(0.1, abs=0.01)

    def test_timeout_without_changes_is_empty_response(self, node: Node, fetcher: Fetcher) -> None:
        fetcher.fetch({"t": {0: 0, 1: 0}})
        assert fetcher.fetch(max_wait_ms=500) == {}
        assert node.loop.time() == pytest.approx(0.5, abs=0.01)

    def test_appends_between_two_fetches_are_returned_immediately(self, node: Node, fetcher: Fetcher) -> None:
        fetcher.fetch({"t": {0: 0, 1: 0}})
        fetcher.fetch(max_wait_ms=500)
        size = appended(node, 1)
        node.pass_time(1)
        response = fetcher.query(max_wait_ms=500)
        assert not isinstance(response, Awaitable)
        assert len(stored_bytes(response.responses[0].partitions[0].records)) == size

    def test_later_request_of_session_completes_parked_one(self, node: Node, fetcher: Fetcher) -> None:
        fetcher.fetch({"t": {0: 0}})
        waiting = fetcher.query(max_wait_ms=500)
        later = fetcher.query(max_wait_ms=500)
        assert node.wait(waiting).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert node.wait(later).error_code == 0

    def test_added_partition_does_not_complete_parked_fetch_and_is_not_read(self, node: Node, fetcher: Fetcher) -> None:
        fetcher.fetch({"t": {0: 0}})
        fetcher.query({"t": {1: 0}}, max_wait_ms=500)
        reads = node.partition("t").topic_metrics.fetches
        waiting = fetcher.query({"t": {2: 0}}, max_wait_ms=500)
        assert node.partition("t").topic_metrics.fetches == reads + 1
        [topic] = node.wait(waiting).responses
        assert sorted((part.partition_index, part.high_watermark) for part in topic.partitions) == [(1, 0), (2, 0)]
        assert fetcher.fetch() == {}

    def test_added_partition_is_read_once_it_has_records(self, node: Node, fetcher: Fetcher) -> None:
        fetcher.fetch({"t": {0: 0}})
        waiting = fetcher.query({"t": {1: 0, 2: 0}}, max_wait_ms=500)
        node.loop.call_later(0.1, lambda: node.append("t", index=1))
        [topic] = node.wait(waiting).responses
        assert {part.partition_index: len(stored_bytes(part.records)) > 0 for part in topic.partitions} == {
            1: True,
            2: False,
        }
        assert node.loop.time() == pytest.approx(0.1, abs=0.01)

    def test_first_response_after_wait_has_every_partition_once(self, node: Node, fetcher: Fetcher) -> None:
        waiting = fetcher.query({"t": {0: 0, 1: 0}}, max_wait_ms=500)
        node.loop.call_later(0.1, lambda: node.append("t", index=1))
        [topic] = node.wait(waiting).responses
        assert [part.partition_index for part in topic.partitions] == [0, 1]

    def test_added_partition_can_be_forgotten_before_response(self, node: Node, fetcher: Fetcher) -> None:
        fetcher.fetch({"t": {0: 0}})
        fetcher.query({"t": {1: 0}}, max_wait_ms=500)
        assert fetcher.fetch({}, {"t": [1]}, max_wait_ms=500) == {}

    def test_idle_session_records_change_of_partition_once(self, node: Node, fetcher: Fetcher) -> None:
        fetcher.fetch({"t": {0: 0, 1: 0, 2: 0}})
        assert len(node.purgatory._watchers) == 3
        for _ in range(2):
            for index in range(3):
                node.append("t", index=index)
            node.pass_time(0)
        assert node.purgatory._watchers == {}
        assert len(fetcher.fetch()) == 3


class TestEpochs:
    @pytest.mark.parametrize("epoch", [2, 7])
    def test_any_epoch_but_the_next_is_refused(self, node: Node, fetcher: Fetcher, epoch: int) -> None:
        fetcher.fetch({"t": {0: 0}})
        fetcher.epoch = epoch
        response = fetcher.response()
        assert (response.error_code, response.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])

    def test_the_same_request_twice_is_refused_the_second_time(self, node: Node, fetcher: Fetcher) -> None:
        fetcher.fetch({"t": {0: 0}})
        fetcher.fetch()
        fetcher.epoch -= 1
        assert fetcher.response().error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH

    def test_after_the_largest_epoch_comes_1(self, node: Node, fetcher: Fetcher) -> None:
        fetcher.fetch({"t": {0: 0}})
        node.replicas.fetch_sessions._sessions[fetcher.session_id].epoch = fetcher.epoch = 2**31 - 1
        fetcher.fetch()
        fetcher.epoch = 1
        assert fetcher.fetch() == {}

    def test_a_session_that_does_not_exist_is_not_found(self, node: Node, fetcher: Fetcher) -> None:
        fetcher.session_id, fetcher.epoch = 12345, 1
        assert fetcher.response().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_epoch_minus_1_closes_the_session_and_opens_none(self, node: Node, fetcher: Fetcher) -> None:
        fetcher.fetch({"t": {0: 0}})
        fetcher.epoch = -1
        assert fetcher.response({"t": {0: 0}}).session_id == 0
        assert len(node.replicas.fetch_sessions) == 0
        assert node.purgatory._watchers == {}

    def test_epoch_0_replaces_the_session(self, node: Node, fetcher: Fetcher) -> None:
        fetcher.fetch({"t": {0: 0}})
        before = fetcher.session_id
        fetcher.epoch = 0
        assert fetcher.response({"t": {0: 0}}).session_id != before
        assert len(node.replicas.fetch_sessions) == 1

    def test_replacing_session_completes_its_parked_fetch(self, node: Node, fetcher: Fetcher) -> None:
        fetcher.fetch({"t": {0: 0}})
        waiting = fetcher.query(max_wait_ms=500)
        fetcher.epoch = 0
        fetcher.fetch({"t": {0: 0}})
        assert node.wait(waiting).error_code == 0
        assert node.loop.time() < 0.1

    def test_forgetting_the_last_partition_closes_the_session(self, node: Node, fetcher: Fetcher) -> None:
        fetcher.fetch({"t": {0: 0}})
        response = node.wait(fetcher.query({}, {"t": [0]}, max_wait_ms=500))
        assert (response.session_id, response.error_code) == (0, 0)
        assert fetcher.response().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_session_by_names_refuses_topic_ids_and_vice_versa(self, node: Node, fetcher: Fetcher) -> None:
        fetcher.fetch({"t": {0: 0}})
        fetcher.version = 25 - fetcher.version
        assert fetcher.response().error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


class TestRecreatedTopics:
    def test_session_by_ids_does_not_return_recreated_topic(self, node: Node) -> None:
        node.create("t", topic_id=b"1" * 16)
        fetcher = Fetcher(node, 13)
        fetcher.fetch({"t": {0: 0}})
        node.remove("t")
        node.create("t", topic_id=b"2" * 16)
        node.append("t")
        node.pass_time(0)
        for _ in range(2):
            [partition] = fetcher.response().responses[0].partitions
            assert (partition.error_code, partition.records) == (ErrorCode.INCONSISTENT_TOPIC_ID, b"")

    def test_session_by_names_continues_with_recreated_topic(self, node: Node) -> None:
        node.create("t", topic_id=b"1" * 16)
        fetcher = Fetcher(node, 12)
        fetcher.fetch({"t": {0: 0}})
        node.remove("t")
        node.create("t", topic_id=b"2" * 16)
        node.append("t")
        node.pass_time(0)
        [(size, high_watermark)] = fetcher.fetch().values()
        assert (size > 0, high_watermark) == (True, 1)
        assert fetcher.fetch({"t": {0: 1}}) == {}
        node.append("t")
        node.pass_time(0)
        assert list(fetcher.fetch()) == [0]

    def test_an_id_becomes_known_when_its_topic_is_created(self, node: Node) -> None:
        fetcher = Fetcher(node, 13)
        topics = [
            FetchRequest.Topic(
                topic_id=b"1" * 16,
                partitions=[FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=100)],
            )
        ]
        response = node.answer(ApiKey.FETCH, 13, max_wait_ms=0, min_bytes=1, session_epoch=0, topics=topics)
        assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        fetcher.session_id, fetcher.epoch = response.session_id, 1
        node.create("t", topic_id=b"1" * 16)
        assert fetcher.fetch() == {0: (0, 0)}


class TestEviction:
    """The cache has four slots."""

    @pytest.fixture
    def node(self, node: Node) -> Node:
        node.create("t", partitions=3)
        return node

    def opened(self, node: Node, *partitions: int, **more: Any) -> Fetcher:
        fetcher = Fetcher(node)
        fetcher.session_id = fetcher.response({"t": dict.fromkeys(partitions, 0)}, **more).session_id
        return fetcher

    def alive(self, fetcher: Fetcher) -> bool:
        return bool(fetcher.response().error_code == 0)

    def test_a_fetch_without_a_slot_is_served_without_a_session(self, node: Node) -> None:
        fetchers = [self.opened(node, 0) for _ in range(5)]
        assert [fetcher.session_id > 0 for fetcher in fetchers] == [True] * 4 + [False]
        assert len(node.purgatory._watchers) == 1

    def test_session_unused_for_two_minutes_is_evicted(self, node: Node) -> None:
        fetchers = [self.opened(node, 0) for _ in range(4)]
        node.pass_time(1)
        fetchers[0].fetch()
        node.pass_time(120)
        assert self.opened(node, 0).session_id > 0
        assert [self.alive(fetcher) for fetcher in fetchers] == [True, False, True, True]

    def test_old_session_is_evicted_for_larger_one(self, node: Node) -> None:
        fetchers = [self.opened(node, 0, 1), self.opened(node, 0), self.opened(node, 0, 1), self.opened(node, 0, 1)]
        for _ in range(2):
            node.pass_time(61)
            for fetcher in fetchers:
                fetcher.fetch()
        assert self.opened(node, 0).session_id == 0
        assert self.opened(node, 0, 1, 2).session_id > 0
        assert [self.alive(fetcher) for fetcher in fetchers] == [True, False, True, True]

    def test_young_session_is_not_evicted_for_larger_one(self, node: Node) -> None:
        fetchers = [self.opened(node, 0) for _ in range(4)]
        assert self.opened(node, 0, 1, 2).session_id == 0
        assert all(self.alive(fetcher) for fetcher in fetchers)

    def test_follower_session_evicts_consumer_session_immediately(self, node: Node) -> None:
        fetchers = [self.opened(node, 0, 1, 2) for _ in range(4)]
        assert self.opened(node, 0, replica_id=2).session_id > 0
        assert [self.alive(fetcher) for fetcher in fetchers].count(False) == 1

    def test_follower_session_does_not_evict_young_follower_session(self, node: Node) -> None:
        fetchers = [self.opened(node, 0, replica_id=2) for _ in range(4)]
        assert self.opened(node, 0, 1, 2, replica_id=3).session_id == 0
        assert all(fetcher.response(replica_id=2).error_code == 0 for fetcher in fetchers)

    def test_evicting_session_completes_its_parked_fetch(self, node: Node) -> None:
        fetchers = [self.opened(node, *range(1 + number)) for number in (0, 1, 1, 1)]
        for _ in range(2):
            node.pass_time(61)
            for fetcher in fetchers[1:]:
                fetcher.fetch()
            waiting = fetchers[0].query(max_wait_ms=60_000)
        assert self.opened(node, 0, 1).session_id > 0
        assert node.wait(waiting).error_code == 0
        assert node.loop.time() < 123
        assert fetchers[0].response().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_fetch_reads_only_changed_partitions(node: Node) -> None:
    node.create("t", partitions=50)
    fetcher = Fetcher(node)
    fetcher.fetch({"t": dict.fromkeys(range(50), 0)})
    node.append("t", index=7)
    node.pass_time(0)
    session = node.replicas.fetch_sessions._sessions[fetcher.session_id]
    assert [known.index for known in session.to_read] == [7]
