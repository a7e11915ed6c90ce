"""Broker 1 follows `t` and `u`, which broker 2 leads; both logs hold one record of epoch 0."""

from __future__ import annotations

from typing import Any

import pytest

from broker.replication.fetcher_state import (
    FIRST_BACKOFF_MS,
    FRUITLESS_FETCHES,
    NO_PROGRESS,
    TRUNCATIONS_A_RESPONSE,
    FetcherState,
    FetchLimits,
)
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.record_batch import build_batch, place, read_header
from tests.unit.broker.node import Node

EPOCH = 5
SESSION = 77
LIMITS = FetchLimits(max_bytes=1000, response_max_bytes=5000, min_bytes=2, max_wait_ms=400, backoff_ms=100)
_Fetched = FetchResponse.Topic.Partition


def batch(offset: int, *, epoch: int = 0, records: int = 1) -> bytes:
    encoded = memoryview(build_batch([(None, b"v")] * records, timestamp_ms=0))
    place(encoded, read_header(encoded), offset, epoch)
    return bytes(encoded)


class Follower:
    """A `FetcherState`, the requests it makes and scripted responses of the leader."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.saved = 0
        self.full = False
        self.remarks: list[str] = []
        self.machine = FetcherState(1, "test", LIMITS, self._save, self.remarks.append)
        for topic in "tu":
            node.create(topic, replicas=(1, 2), leader=2)
            node.partition(topic).log.append_as_follower(batch(0), 0, 0)
            self.follow(topic)

    def _save(self) -> None:
        if self.full:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
        self.saved += 1

    def follow(self, topic: str) -> None:
        self.machine.follow(self.node.replicas.follower_replica(self.node.partition(topic)))

    def end(self, topic: str = "t") -> int:
        return self.node.partition(topic).log.log_end_offset

    def query(self, now_ms: int = 0) -> FetchRequest:
        request = self.machine.next_request(EPOCH, now_ms)
        assert isinstance(request, FetchRequest)
        request.encode(17)
        return request

    def named(self, request: FetchRequest) -> dict[str, int]:
        """Return the fetch offset of each topic in the request."""
        return {topic.topic_id[:1].decode(): one.fetch_offset for topic in request.topics for one in topic.partitions}

    def forgotten(self, request: FetchRequest) -> str:
        return "".join(topic.topic_id[:1].decode() for topic in request.forgotten_topics_data)

    def respond(self, *, session: int = SESSION, code: int = 0, now_ms: int = 0, **topics: dict[str, Any]) -> None:
        """Answer the oldest request in flight."""
        responses = [
            FetchResponse.Topic(
                topic_id=name.encode().ljust(16, b"_"),
                partitions=[
                    _Fetched(
                        **{
                            "partition_index": 0,
                            "high_watermark": 0,
                            "log_start_offset": 0,
                            "aborted_transactions": None,
                            "records": b"",
                        }
                        | fields
                    )
                ],
            )
            for name, fields in topics.items()
        ]
        self.machine.handle_response(FetchResponse(error_code=code, session_id=session, responses=responses), now_ms)

    def settle(self) -> None:
        """Establish a session that names every partition."""
        self.query()
        self.respond()


@pytest.fixture
def follower(node: Node) -> Follower:
    return Follower(node)


class TestSessions:
    def test_first_fetch_has_every_partition_and_replica_id(self, follower: Follower) -> None:
        request = follower.query()
        assert follower.named(request) == {"t": 1, "u": 1}
        assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, EPOCH)
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (400, 2, 5000)
        (wanted,) = request.topics[0].partitions
        assert (wanted.current_leader_epoch, wanted.last_fetched_epoch, wanted.log_start_offset) == (0, 0, 0)
        assert wanted.partition_max_bytes == 1000

    def test_later_fetches_have_only_changed_partitions(self, follower: Follower) -> None:
        follower.settle()
        request = follower.query()
        assert (follower.named(request), request.session_id, request.session_epoch) == ({}, SESSION, 1)
        follower.respond(t={"records": batch(1)})
        request = follower.query()
        assert (follower.named(request), request.session_epoch) == ({"t": 2}, 2)

    def test_every_fetch_without_session_has_every_partition(self, follower: Follower) -> None:
        for _ in range(2):
            request = follower.query()
            assert (follower.named(request), request.session_epoch) == ({"t": 1, "u": 1}, 0)
            follower.respond(session=0)

    @pytest.mark.parametrize(
        ("code", "session"),
        [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, SESSION)],
    )
    def test_lost_session_is_replaced_immediately(self, follower: Follower, code: ErrorCode, session: int) -> None:
        follower.settle()
        follower.query()
        follower.respond(code=code)
        request = follower.query()
        assert (request.session_id, request.session_epoch) == (session, 0)
        assert follower.named(request) == {"t": 1, "u": 1}

    def test_lost_connection_backs_off_with_growing_delay(self, follower: Follower) -> None:
        now_ms, pauses = 0, []
        for _ in range(5):
            follower.query(now_ms)
            follower.machine.handle_response(None, now_ms)
            due_ms = follower.machine.due_ms
            assert due_ms is not None
            assert follower.machine.next_request(EPOCH, due_ms - 1) is None
            pauses.append(due_ms - now_ms)
            now_ms = due_ms
        assert pauses == [20, 40, 80, 100, 100]
        assert follower.named(follower.query(now_ms)) == {"t": 1, "u": 1}

    @pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.FETCH_SESSION_ID_NOT_FOUND])
    def test_early_responses_without_progress_back_off_with_growing_delay(
        self, follower: Follower, code: ErrorCode
    ) -> None:
        now_ms, pauses = 0, []
        for _ in range(FRUITLESS_FETCHES + 4):
            follower.query(now_ms)
            follower.respond(session=0, code=code, now_ms=now_ms, t={}, u={})
            due_ms = follower.machine.due_ms
            assert due_ms is not None
            pauses.append(due_ms - now_ms if due_ms > now_ms else 0)
            now_ms = max(now_ms, due_ms)
        assert pauses == [*[0] * (FRUITLESS_FETCHES - 1), 20, 40, 80, 100, 100]
        assert follower.remarks == [NO_PROGRESS]

    def test_errors_of_unfollowed_partitions_cause_no_backoff(self, follower: Follower) -> None:
        follower.settle()
        for _ in range(2 * FRUITLESS_FETCHES):
            follower.query()
            follower.machine.unfollow(b"u".ljust(16, b"_"), 0)
            follower.respond(u={"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
            assert follower.machine.due_ms == 0
            assert follower.forgotten(follower.query()) == "u"
            follower.follow("u")
            follower.respond()
        assert follower.remarks == []

    def test_errors_of_partitions_followed_anew_cause_no_backoff(self, follower: Follower) -> None:
        follower.settle()
        for _ in range(2 * FRUITLESS_FETCHES):
            follower.query()
            follower.machine.unfollow(b"u".ljust(16, b"_"), 0)
            follower.follow("u")
            follower.respond(u={"error_code": ErrorCode.FENCED_LEADER_EPOCH})
            assert follower.machine.due_ms == 0
        assert follower.remarks == []

    @pytest.mark.parametrize("waited_ms", [0, LIMITS.max_wait_ms])
    def test_progress_or_full_max_wait_resets_backoff(self, follower: Follower, waited_ms: int) -> None:
        now_ms = 0
        for round_ in range(3 * FRUITLESS_FETCHES):
            follower.query(now_ms)
            if round_ % FRUITLESS_FETCHES == FRUITLESS_FETCHES - 1:
                now_ms += waited_ms
                records = b"" if waited_ms else batch(follower.end())
                follower.respond(session=0, now_ms=now_ms, t={"records": records}, u={})
            else:
                follower.respond(session=0, now_ms=now_ms, t={}, u={})
        assert follower.remarks == []

    def test_no_request_is_sent_while_fetch_is_in_flight(self, follower: Follower) -> None:
        follower.query()
        assert (follower.machine.next_request(EPOCH, 0), follower.machine.due_ms) == (None, None)

    def test_fetcher_without_partitions_sends_nothing(self, follower: Follower, node: Node) -> None:
        follower.settle()
        for topic in "tu":
            follower.machine.unfollow(node.partition(topic).topic_id, 0)
        assert (len(follower.machine), follower.machine.due_ms) == (0, None)
        assert follower.machine.next_request(EPOCH, 0) is None


class TestFollowing:
    def test_partition_added_during_fetch_is_fetched_immediately(self, follower: Follower, node: Node) -> None:
        follower.settle()
        follower.query()
        node.create("v", replicas=(1, 2), leader=2)
        follower.follow("v")
        assert follower.machine.due_ms == 0
        request = follower.query()
        assert (follower.named(request), request.session_epoch) == ({"v": 0}, 2)
        assert follower.machine.due_ms is None
        follower.respond(code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)  # type: ignore[unreachable]  # changed by the call above
        follower.respond(v={"records": batch(0)})
        assert follower.end("v") == 1
        request = follower.query()
        assert (follower.named(request), request.session_epoch) == ({"v": 1}, 3)

    def test_failed_fetch_names_all_partitions_again_after_a_later_fetch(self, follower: Follower, node: Node) -> None:
        follower.settle()
        follower.query()
        node.create("v", replicas=(1, 2), leader=2)
        follower.follow("v")
        follower.query()
        follower.respond(code=ErrorCode.UNKNOWN_SERVER_ERROR)
        request = follower.query()
        assert (follower.named(request), request.session_epoch) == ({"t": 1, "u": 1, "v": 0}, 3)

    @pytest.mark.parametrize("late", [{"error_code": ErrorCode.FENCED_LEADER_EPOCH}, {"high_watermark": 1}])
    def test_response_of_other_leader_epoch_is_dropped(
        self, follower: Follower, node: Node, late: dict[str, Any]
    ) -> None:
        follower.settle()
        follower.query()
        node.elect("t", 2)
        follower.follow("t")
        follower.query()
        follower.respond(t=late)
        assert node.partition("t").log.high_watermark == 0
        follower.respond(t={"records": batch(1, epoch=1)})
        assert follower.end() == 2

    @pytest.mark.parametrize("requested_again", [False, True])
    def test_response_with_present_records_only_advances_high_watermark(
        self, follower: Follower, node: Node, requested_again: bool
    ) -> None:
        follower.settle()
        follower.query()
        node.create("v", replicas=(1, 2), leader=2)
        follower.follow("v")
        follower.query()
        follower.respond(t={"records": batch(1), "high_watermark": 1})
        if requested_again:
            assert follower.named(follower.query()) == {"t": 2}
        follower.respond(t={"records": batch(1), "high_watermark": 2})  # The leader does not repeat it.
        log = node.partition("t").log
        assert (log.log_end_offset, log.high_watermark) == (2, 2)

    def test_unfollowed_partition_leaves_session_and_its_response_is_dropped(
        self, follower: Follower, node: Node
    ) -> None:
        follower.settle()
        follower.query()
        follower.machine.unfollow(node.partition("t").topic_id, 0)
        follower.respond(t={"records": batch(1)})
        assert follower.end() == 1
        request = follower.query()
        assert (follower.named(request), follower.forgotten(request)) == ({}, "t")

    def test_following_again_in_same_epoch_changes_nothing(self, follower: Follower) -> None:
        follower.settle()
        follower.follow("t")
        assert follower.named(follower.query()) == {}

    def test_local_log_start_change_is_sent_to_leader(self, follower: Follower, node: Node) -> None:
        follower.settle()
        log = node.partition("t").log
        log.update_high_watermark(1)
        log.advance_log_start(1)
        follower.machine.log_start_moved(node.partition("t").topic_id, 0)
        (wanted,) = follower.query().topics[0].partitions
        assert wanted.log_start_offset == 1


class TestAnswers:
    def test_lag_is_distance_to_leaders_high_watermark(self, follower: Follower) -> None:
        def lags() -> dict[str, int]:
            return {partition.topic: lag for partition, lag in follower.machine.lags()}

        follower.query()
        follower.respond(t={"records": batch(1), "high_watermark": 7}, u={})
        assert lags() == {"t": 5, "u": 0}
        follower.query()
        follower.respond(t={"records": batch(2, records=5), "high_watermark": 7})
        assert lags() == {"t": 0, "u": 0}

    def test_records_are_appended_with_the_high_watermark(self, follower: Follower, node: Node) -> None:
        follower.query()
        follower.respond(t={"records": batch(1) + batch(2, records=3), "high_watermark": 4})
        log = node.partition("t").log
        assert (log.log_end_offset, log.high_watermark) == (5, 4)

    def test_advanced_log_start_is_saved_once_and_sent(self, follower: Follower, node: Node) -> None:
        follower.query()
        moved = {"high_watermark": 1, "log_start_offset": 1}
        follower.respond(t=moved, u=moved)
        assert follower.saved == 1
        assert node.partition("t").log.log_start_offset == 1
        assert follower.named(follower.query()) == {"t": 1, "u": 1}

    def test_rule_23_log_start_is_not_sent_until_saved(self, follower: Follower) -> None:
        follower.query()
        moved = {"high_watermark": 1, "log_start_offset": 1}
        follower.full = True
        follower.respond(t=moved, u={"records": batch(1)})
        request = follower.query()
        assert (follower.named(request), follower.forgotten(request)) == ({"u": 2}, "t")
        follower.respond(now_ms=FIRST_BACKOFF_MS)
        assert follower.named(follower.query(FIRST_BACKOFF_MS)) == {}
        follower.full = False
        follower.respond(now_ms=3 * FIRST_BACKOFF_MS)
        assert follower.named(follower.query(3 * FIRST_BACKOFF_MS)) == {"t": 1}
        assert (follower.saved, follower.remarks) == (1, ["KAFKA_STORAGE_ERROR: full"])

    def test_diverging_log_is_truncated(self, follower: Follower, node: Node) -> None:
        node.partition("t").log.append_as_follower(batch(1, epoch=3), 3, 0)
        node.elect("t", 2)
        follower.follow("t")
        follower.query()
        follower.respond(t={"diverging_epoch": _Fetched.DivergingEpoch(epoch=0, end_offset=1)})
        assert follower.end() == 1
        assert follower.remarks == ["t-0 truncated from 2 to 1, where it diverges from the leader's log"]
        (wanted,) = follower.query().topics[0].partitions
        assert (wanted.fetch_offset, wanted.last_fetched_epoch) == (1, 0)

    def test_divergence_without_truncation_backs_off(self, follower: Follower) -> None:
        follower.query()
        follower.respond(t={"diverging_epoch": _Fetched.DivergingEpoch(epoch=0, end_offset=1)}, u={})
        assert (follower.end(), follower.named(follower.query()), follower.machine.due_ms) == (1, {}, FIRST_BACKOFF_MS)

    def test_truncations_per_response_are_limited(self, follower: Follower, node: Node) -> None:
        names = [chr(ord("a") + number) for number in range(TRUNCATIONS_A_RESPONSE)]
        parted = {"diverging_epoch": _Fetched.DivergingEpoch(epoch=0, end_offset=1)}
        for name in dict.fromkeys([*names, "t", "u"]):
            if name not in "tu":
                node.create(name, replicas=(1, 2), leader=2)
                node.partition(name).log.append_as_follower(batch(0), 0, 0)
            node.partition(name).log.append_as_follower(batch(1, epoch=3), 3, 0)
            node.elect(name, 2)
            follower.follow(name)
        everybody = list(follower.named(follower.query()))
        assert len(everybody) > TRUNCATIONS_A_RESPONSE
        follower.respond(**dict.fromkeys(everybody, parted))  # type: ignore[arg-type]  # keywords of several types
        assert sum(follower.end(name) == 1 for name in everybody) == TRUNCATIONS_A_RESPONSE
        left = [name for name, offset in follower.named(follower.query()).items() if offset == 2]
        assert len(left) == len(everybody) - TRUNCATIONS_A_RESPONSE
        follower.respond(**dict.fromkeys(left, parted))  # type: ignore[arg-type]  # keywords of several types
        assert {follower.end(name) for name in everybody} == {1}

    @pytest.mark.parametrize(
        "code",
        [
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.KAFKA_STORAGE_ERROR,
        ],
    )
    def test_failed_partition_backs_off_without_delaying_others(self, follower: Follower, code: ErrorCode) -> None:
        follower.query()
        follower.respond(t={"error_code": code}, u={"records": batch(1)})
        request = follower.query()
        assert (follower.named(request), follower.forgotten(request)) == ({"u": 2}, "t")
        assert follower.machine.due_ms == FIRST_BACKOFF_MS
        request = follower.query(FIRST_BACKOFF_MS)
        assert (follower.named(request), follower.forgotten(request)) == ({"t": 1}, "")

    def test_partition_backoff_grows_until_success(self, follower: Follower, node: Node) -> None:
        follower.machine.unfollow(node.partition("u").topic_id, 0)
        now_ms, pauses = 0, []
        for round_ in range(5):
            follower.query(now_ms)
            if round_ == 3:
                follower.respond(t={"records": batch(1)}, now_ms=now_ms)
                follower.query(now_ms)
            follower.respond(t={"error_code": ErrorCode.UNKNOWN_LEADER_EPOCH}, now_ms=now_ms)
            due_ms = follower.machine.due_ms
            assert due_ms is not None
            pauses.append(due_ms - now_ms)
            now_ms = due_ms
        assert pauses == [20, 40, 80, 20, 40]

    def test_fenced_partition_is_not_fetched_until_newer_epoch(self, follower: Follower, node: Node) -> None:
        follower.query()
        follower.respond(t={"error_code": ErrorCode.FENCED_LEADER_EPOCH})
        assert follower.forgotten(follower.query(1000)) == "t"
        follower.respond()
        assert follower.named(follower.query(1000)) == {}
        node.elect("t", 2)
        follower.follow("t")
        assert follower.named(follower.query(1000)) == {"t": 1}

    def test_damaged_records_are_fetched_again_after_backoff(self, follower: Follower) -> None:
        damaged = bytearray(batch(1))
        damaged[-1] ^= 1
        follower.query()
        follower.respond(t={"records": bytes(damaged)})
        assert (follower.end(), len(follower.remarks)) == (1, 1)
        assert follower.named(follower.query(FIRST_BACKOFF_MS)) == {"t": 1}

    def test_repeated_failure_is_logged_once_until_success(self, follower: Follower) -> None:
        shown = []
        for number, (offset, sound) in enumerate([(1, False), (1, False), (1, True), (2, False)]):
            records = bytearray(batch(offset))
            records[-1] ^= not sound
            follower.query(1000 * number)
            follower.respond(t={"records": bytes(records)}, now_ms=1000 * number)
            shown.append(len(follower.remarks))
        assert shown == [1, 1, 1, 2]

    def test_records_of_unknown_newer_epoch_wait_for_metadata(self, follower: Follower) -> None:
        follower.query()
        follower.respond(t={"records": batch(1, epoch=3)})
        assert follower.end() == 1
        assert follower.named(follower.query(0)) == {}
        assert follower.machine.due_ms == FIRST_BACKOFF_MS

    def test_partition_on_failed_disk_is_not_fetched(self, follower: Follower, node: Node) -> None:
        follower.query()
        node.partition("t").log.mark_deleted()
        follower.respond(t={"records": batch(1)}, u={"records": batch(1)})
        request = follower.query(100_000)
        assert (follower.named(request), follower.forgotten(request)) == ({"u": 2}, "t")


class TestOutOfRange:
    """The leader has no record at the follower's offset, 1."""

    @pytest.fixture
    def follower(self, follower: Follower) -> Follower:
        follower.query()
        follower.respond(t={"error_code": ErrorCode.OFFSET_OUT_OF_RANGE})
        return follower

    def ends(self, follower: Follower, timestamp: int, offset: int, code: int = 0) -> None:
        """Answer the ListOffsets request for an end of the leader's log."""
        request = follower.machine.next_request(EPOCH, 0)
        assert isinstance(request, ListOffsetsRequest)
        assert request.replica_id == 1
        (topic,) = request.topics
        (wanted,) = topic.partitions
        assert (topic.name, wanted.partition_index, wanted.timestamp) == ("t", 0, timestamp)
        found = ListOffsetsResponse.Topic.Partition(partition_index=0, error_code=code, offset=offset, leader_epoch=0)
        topics = [ListOffsetsResponse.Topic(name="t", partitions=[found])]
        follower.machine.handle_response(ListOffsetsResponse(topics=topics), 0)

    def test_follower_truncates_to_leaders_earlier_log_end(self, follower: Follower) -> None:
        self.ends(follower, -1, 0)
        assert follower.end() == 0
        assert follower.named(follower.query()) == {"t": 0}

    def test_follower_restarts_at_leaders_later_log_start(self, follower: Follower, node: Node) -> None:
        self.ends(follower, -1, 9)
        self.ends(follower, -2, 5)
        log = node.partition("t").log
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (5, 5, 5)
        assert follower.named(follower.query()) == {"t": 5}

    def test_fetch_is_retried_after_backoff_if_leader_has_offset(self, follower: Follower) -> None:
        self.ends(follower, -1, 9)
        self.ends(follower, -2, 0)
        assert follower.end() == 1
        assert follower.named(follower.query(FIRST_BACKOFF_MS)) == {"t": 1}

    def test_failed_list_offsets_backs_off(self, follower: Follower) -> None:
        self.ends(follower, -1, -1, ErrorCode.UNKNOWN_LEADER_EPOCH)
        assert follower.named(follower.query(FIRST_BACKOFF_MS)) == {"t": 1}

    def test_lost_list_offsets_is_retried(self, follower: Follower) -> None:
        follower.machine.next_request(EPOCH, 0)
        follower.machine.handle_response(None, 0)
        assert isinstance(follower.machine.next_request(EPOCH, FIRST_BACKOFF_MS), ListOffsetsRequest)

    def test_list_offsets_response_for_unfollowed_partition_is_dropped(self, follower: Follower, node: Node) -> None:
        request = follower.machine.next_request(EPOCH, 0)
        assert isinstance(request, ListOffsetsRequest)
        follower.machine.unfollow(node.partition("t").topic_id, 0)
        found = ListOffsetsResponse.Topic.Partition(partition_index=0, offset=0, leader_epoch=0)
        topics = [ListOffsetsResponse.Topic(name="t", partitions=[found])]
        follower.machine.handle_response(ListOffsetsResponse(topics=topics), 0)
        assert follower.end() == 1
