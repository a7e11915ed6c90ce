"""A follower's handling of Fetch and FetchSnapshot responses: node 2, epoch 3. Divergence: `tests/scripts/quorum`."""

from __future__ import annotations

import pytest

from controller.batches import encode_entry
from controller.raft.follower import SnapshotDownload, scan
from controller.raft.log import Entry, RaftLog, SnapshotId
from controller.raft.messages import Role
from controller.raft.wire import LeaderAndEpoch, fetch_response, snapshot_response
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from protocol.records.metadata import NoOpRecord
from tests.typed import instance, present
from tests.unit.controller.lone_voter import LoneVoter

LEADER = LeaderAndEpoch(2, 3)


def batch(offset: int, epoch: int = 3, records: int = 1) -> bytes:
    return bytes(encode_entry(Entry(offset, epoch, (NoOpRecord(),) * records), 0))


def follower(*epochs: int) -> LoneVoter:
    return LoneVoter(*epochs).follow(2, 3)


def records(data: bytes, high_watermark: int = 0) -> FetchResponse:
    response = fetch_response(LEADER, high_watermark=high_watermark, log_start_offset=0)
    response.responses[0].partitions[0].records = data
    return response


def part(snapshot: SnapshotId, position: int, data: bytes, size: int) -> FetchSnapshotResponse:
    response = snapshot_response(LEADER, snapshot, position=position)
    response.topics[0].partitions[0].size = size
    response.topics[0].partitions[0].unaligned_records = data
    return response


def test_fetched_batches_are_appended_and_not_fetched_again() -> None:
    at = follower(1)
    at.answered(at.the_fetch(), records(batch(1) + batch(2, records=2), high_watermark=2))
    (received,) = [ready.received for ready in at.readies if ready.received]
    assert bytes(received.batches) == batch(1) + batch(2, records=2)
    assert [(entry.base_offset, entry.next_offset) for entry in received.entries] == [(1, 2), (2, 4)]
    requested = instance(FetchRequest, at.the_fetch().message).topics[0].partitions[0]
    assert (requested.fetch_offset, requested.last_fetched_epoch, requested.high_watermark) == (4, 3, 2)


def test_fetch_offset_advances_only_after_the_batches_are_stored() -> None:
    at = follower(1)
    at.answered(at.the_fetch(), records(batch(1)))
    assert [bool(ready.requests) for ready in at.readies if ready.received] == [True]


def test_high_watermark_is_limited_to_the_local_log_end() -> None:
    at = follower(1)
    at.answered(at.the_fetch(), records(batch(1), high_watermark=9))
    assert at.node.high_watermark == 2


def test_failed_fetch_is_retried_after_a_backoff() -> None:
    at = follower(1)
    at.answered(at.the_fetch(), None)
    at.wait(19)
    assert not at.sent(FetchRequest)
    at.wait(1)
    assert at.sent(FetchRequest)


def test_response_of_a_previous_leader_is_ignored() -> None:
    at = follower(1)
    earlier = at.the_fetch()
    at.follow(3, 4)
    at.answered(earlier, records(batch(1), high_watermark=1))
    assert (at.node.end_offset, at.node.high_watermark, at.node.leader_id) == (1, 0, 3)


def test_batches_before_a_corrupt_batch_are_stored() -> None:
    at = follower(1)
    damaged = bytearray(batch(1) + batch(2))
    damaged[-1] ^= 1
    at.answered(at.the_fetch(), records(bytes(damaged)))
    assert at.node.end_offset == 2
    assert at.warnings == [
        "Batches from the quorum's leader 2 refused: the batch at offset 2 does not match its CRC-32C",
    ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (batch(3), "a batch at offset 3 where 1 is expected"),
        (batch(1, epoch=4), "the batch at offset 1 is of epoch 4"),
        (batch(1, epoch=0), "the batch at offset 1 is of epoch 0"),
        (b"x" * 80, "invalid record batch at byte 0"),
    ],
)
def test_batches_with_wrong_offsets_or_epochs_are_rejected(data: bytes, problem: str) -> None:
    scanned = scan(data, RaftLog(1, 1), leader_epoch=3)
    assert scanned.received is None
    assert scanned.problem.startswith(problem)


def test_truncated_batch_is_fetched_again() -> None:
    whole = batch(1)
    received = present(scan(whole + batch(2)[:-1], RaftLog(1, 1), 3).received)
    assert (bytes(received.batches), len(received.entries)) == (whole, 1)


def test_snapshot_is_fetched_in_chunks_and_the_log_starts_at_its_end() -> None:
    at, snapshot = follower(1), SnapshotId(50, 2)
    at.answered(at.the_fetch(), fetch_response(LEADER, high_watermark=60, log_start_offset=50, divergence=snapshot))
    for position, data in ((0, b"abc"), (3, b"de")):
        (request,) = at.sent(FetchSnapshotRequest)
        assert instance(FetchSnapshotRequest, request.message).topics[0].partitions[0].position == position
        at.answered(request, part(snapshot, position, data, size=5))
    parts = [(part.position, bytes(part.data)) for ready in at.readies for part in ready.snapshot_parts]
    assert parts == [(0, b"abc"), (3, b"de")]
    assert [ready.reset_to_snapshot for ready in at.readies if ready.reset_to_snapshot] == [snapshot]
    assert (at.node.end_offset, at.node.high_watermark) == (50, 50)
    requested = instance(FetchRequest, at.the_fetch().message).topics[0].partitions[0]
    assert (requested.fetch_offset, requested.last_fetched_epoch) == (50, 2)


def test_follower_fetches_the_log_again_after_snapshot_not_found() -> None:
    at, snapshot = follower(1), SnapshotId(50, 2)
    at.answered(at.the_fetch(), fetch_response(LEADER, divergence=snapshot))
    (request,) = at.sent(FetchSnapshotRequest)
    at.answered(request, snapshot_response(LEADER, snapshot, error=ErrorCode.SNAPSHOT_NOT_FOUND))
    at.wait(20)
    assert at.sent(FetchRequest)
    assert not at.sent(FetchSnapshotRequest)


def test_snapshot_below_the_high_watermark_is_ignored() -> None:
    at = LoneVoter(1, 1, 1, high_watermark=3).follow(2, 3)
    at.answered(at.the_fetch(), fetch_response(LEADER, divergence=SnapshotId(2, 1)))
    assert not at.sent(FetchSnapshotRequest)
    assert "snapshot ends at offset 2" in at.warnings[0]


@pytest.mark.parametrize(("position", "data", "size"), [(1, b"b", 9), (0, b"", 9), (0, b"abc", 2)])
def test_snapshot_chunk_with_a_wrong_position_or_size_is_rejected(position: int, data: bytes, size: int) -> None:
    assert SnapshotDownload(SnapshotId(50, 2), 0).part(position, data, size) is None


def test_observer_fetches_from_the_voters_when_its_leader_does_not_respond() -> None:
    at = LoneVoter(1, node_id=9).follow(2, 3)
    assert at.node.role is Role.OBSERVER
    at.answered(at.the_fetch(), None)
    assert (at.node.role, at.node.leader_id) == (Role.UNATTACHED, -1)
    at.wait(20)
    assert at.the_fetch().to in (1, 2, 3)
