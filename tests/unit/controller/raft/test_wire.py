"""Round trips of Raft messages through Kafka's requests and responses."""

from __future__ import annotations

from typing import Any

import pytest

from controller.raft.log import RaftEpochEnd, SnapshotId
from controller.raft.messages import Timing
from controller.raft.voters import Voter, VoterEndpoint
from controller.raft.wire import (
    LeaderAndEpoch,
    ResponseHeader,
    begin_request,
    begin_response,
    end_request,
    end_response,
    error_response,
    fetch_request,
    fetch_response,
    requested_partition,
    response_header,
    snapshot_request,
    snapshot_response,
    vote_request,
    vote_response,
)
from protocol.errors import ErrorCode, InvariantError, KafkaError
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.schema import Message
from tests.unit.controller.lone_voter import me

TO = Voter(2, b"d" * 16, (VoterEndpoint("CONTROLLER", "h", 9093),))
END = RaftEpochEnd(3, 70)
REQUESTS: dict[str, tuple[Any, int]] = {
    "vote": (vote_request(me(1), TO, 4, END, pre_vote=True), 2),
    "begin": (begin_request(me(1), TO, 4, TO), 1),
    "end": (end_request(me(1), 4, [TO]), 1),
    "fetch": (fetch_request(me(1), 4, END, 60, Timing()), 18),
    "snapshot": (snapshot_request(me(1), 4, SnapshotId(50, 2), 7, Timing()), 1),
}


def travelled(message: Message, version: int) -> Any:
    return type(message).decode(message.encode(version), version)


@pytest.mark.parametrize("name", REQUESTS)
def test_request_round_trip(name: str) -> None:
    request, version = REQUESTS[name]
    arrived = travelled(request, version)
    if name == "end":
        # Version 0 only; later versions have it in PreferredCandidates, with directory ids.
        requested_partition(arrived).preferred_successors = [2]
    assert requested_partition(arrived) == requested_partition(request)
    assert arrived.cluster_id == "c"


def test_fetch_contains_the_senders_log_end() -> None:
    request = travelled(*REQUESTS["fetch"])
    requested = requested_partition(request)
    assert request.replica_state.replica_id == 1
    assert (requested.fetch_offset, requested.last_fetched_epoch, requested.current_leader_epoch) == (70, 3, 4)
    assert (requested.high_watermark, request.max_wait_ms) == (60, 500)


@pytest.mark.parametrize("name", REQUESTS)
def test_error_response_contains_the_leader(name: str) -> None:
    error, known = ErrorCode.FENCED_LEADER_EPOCH, LeaderAndEpoch(3, 9)
    responses: dict[str, Message] = {
        "vote": vote_response(known, granted=False, error=error),
        "begin": begin_response(known, error),
        "end": end_response(known, error),
        "fetch": fetch_response(known, error=error),
        "snapshot": snapshot_response(known, SnapshotId(50, 2), error=error),
    }
    response = travelled(responses[name], REQUESTS[name][1])
    assert response_header(response)[:3] == (ErrorCode.FENCED_LEADER_EPOCH, 3, 9)


@pytest.mark.parametrize("name", REQUESTS)
def test_top_level_error_response_contains_nothing_else(name: str) -> None:
    request, version = REQUESTS[name]
    reported = response_header(travelled(error_response(request, ErrorCode.INCONSISTENT_CLUSTER_ID), version))
    assert reported == ResponseHeader(ErrorCode.INCONSISTENT_CLUSTER_ID, -1, -1, None)


@pytest.mark.parametrize("name", REQUESTS)
def test_another_topic_or_partition_is_not_the_metadata_log(name: str) -> None:
    request, version = REQUESTS[name]
    request = travelled(request, version)
    (topic,) = request.topics
    (partition,) = topic.partitions
    number = "partition" if name in ("fetch", "snapshot") else "partition_index"
    setattr(partition, number, 1)
    with pytest.raises(KafkaError):
        requested_partition(request)
    setattr(partition, number, 0)
    if name == "fetch":
        topic.topic, topic.topic_id = "", bytes(16)
    else:
        setattr(topic, "name" if name == "snapshot" else "topic_name", "other")
    with pytest.raises(KafkaError) as refused:
        requested_partition(request)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_fetch_response_contains_the_diverging_epoch_or_the_snapshot_id() -> None:
    for instead in (RaftEpochEnd(2, 40), SnapshotId(50, 2)):
        answered: Any = response_header(
            travelled(fetch_response(LeaderAndEpoch(3, 4), divergence=instead), 18)
        ).partition
        diverging, snapshot = answered.diverging_epoch, answered.snapshot_id
        assert (diverging.end_offset >= 0) is isinstance(instead, RaftEpochEnd)
        assert (snapshot.end_offset >= 0) is isinstance(instead, SnapshotId)


def test_vote_response_round_trip() -> None:
    for given in (True, False):
        response = travelled(vote_response(LeaderAndEpoch(-1, 4), granted=given), 2)
        partition: Any = response_header(response).partition
        assert partition.vote_granted is given


def test_malformed_raft_responses_are_none() -> None:
    with pytest.raises(InvariantError, match="ApiVersionsResponse"):
        response_header(ApiVersionsResponse(error_code=0, api_keys=[]))
