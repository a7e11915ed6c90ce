"""Voters and kraft.version by offset: appended, truncated, and replaced by a snapshot."""

from __future__ import annotations

import pytest

from controller.batches import encode_entry
from controller.raft.log import Entry, RaftEpochEnd, SnapshotId
from controller.raft.messages import Role
from controller.raft.voter_history import OffsetHistory, VoterHistory
from controller.raft.voters import Voter, VoterSet
from controller.raft.wire import LeaderAndEpoch, fetch_response, snapshot_response
from protocol.messages.fetch import FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotRequest
from protocol.records.control import KRaftVersionRecord
from protocol.records.metadata import NoOpRecord
from protocol.schema import Message
from tests.unit.controller.lone_voter import VOTERS, LoneVoter

STATIC = VoterSet([Voter(1)])
FIRST = VoterSet([Voter(1, b"a" * 16), Voter(2, b"b" * 16), Voter(3, b"c" * 16)])
SECOND = VoterSet([*FIRST.by_id.values(), Voter(4, b"d" * 16)])
VERSION_1 = KRaftVersionRecord(version=0, kraft_version=1)
LEADER = LeaderAndEpoch(2, 3)


def ids(voters: VoterSet) -> list[int]:
    return list(voters.by_id)


def history() -> VoterHistory:
    """Return a history with the first voters from offset 2 on and the second ones from offset 7 on."""
    made = VoterHistory(STATIC)
    made.append(0, [NoOpRecord(), VERSION_1, FIRST.to_record()])
    made.append(7, [SECOND.to_record()])
    return made


def test_static_voters_count_until_the_log_has_others() -> None:
    made = VoterHistory(STATIC)
    assert (made.voters, made.kraft_version, made.is_in_log) == (STATIC, 0, False)
    made.append(4, [VERSION_1, FIRST.to_record()])
    assert (ids(made.voters), made.kraft_version, made.is_in_log) == ([1, 2, 3], 1, True)


@pytest.mark.parametrize(
    ("end_offset", "voters", "kraft_version"),
    [(8, [1, 2, 3, 4], 1), (7, [1, 2, 3], 1), (3, [1, 2, 3], 1), (2, [1], 1), (1, [1], 0), (0, [1], 0)],
)
def test_truncation_brings_back_the_earlier_voters(end_offset: int, voters: list[int], kraft_version: int) -> None:
    made = history()
    made.truncate(end_offset)
    assert (ids(made.voters), made.kraft_version) == (voters, kraft_version)


@pytest.mark.parametrize(("end_offset", "voters"), [(8, [1, 2, 3, 4]), (7, [1, 2, 3]), (3, [1, 2, 3]), (2, [1])])
def test_snapshot_has_the_voters_at_its_end(end_offset: int, voters: list[int]) -> None:
    found = history().snapshot_voters(end_offset)
    assert found is not None
    assert ids(found) == voters


def test_snapshot_at_kraft_version_0_has_no_voters() -> None:
    assert history().snapshot_voters(1) is None
    made = history()
    made.load_snapshot(20, None, 0)
    assert (made.voters, made.kraft_version) == (STATIC, 0)


def test_snapshot_replaces_what_is_before_its_end() -> None:
    made = history()
    made.load_snapshot(5, FIRST, 1)
    assert ids(made.voters) == [1, 2, 3, 4]
    made.truncate(5)
    assert ids(made.voters) == [1, 2, 3]


def test_value_before_the_first_one_is_the_first_one() -> None:
    values = OffsetHistory("a")
    values.restart(10, "b")
    assert (values.before(0), values.before(10), values.latest_offset) == ("b", "b", 9)
    values.truncate(10)
    assert values.latest == "b"


def received(base_offset: int, *records: Message, epoch: int = 3) -> FetchResponse:
    response = fetch_response(LEADER, high_watermark=0, log_start_offset=0)
    response.responses[0].partitions[0].records = bytes(encode_entry(Entry(base_offset, epoch, records), 0))
    return response


def test_follower_follows_voters_in_received_batches_and_back_when_they_are_truncated() -> None:
    at = LoneVoter(1).follow(2, 3)
    at.answered(at.the_fetch(), received(1, VERSION_1, FIRST.to_record()))
    assert (at.node.voters.by_id, at.node.kraft_version) == (FIRST.by_id, 1)
    at.answered(at.the_fetch(), received(3, VoterSet([Voter(2), Voter(3)]).to_record()))
    assert (ids(at.node.voters), at.node.role) == ([2, 3], Role.OBSERVER)
    at.answered(at.the_fetch(), fetch_response(LEADER, divergence=RaftEpochEnd(1, 1)))
    assert (at.node.end_offset, at.node.voters.by_id, at.node.kraft_version) == (1, VOTERS.by_id, 0)
    assert at.node.role is Role.FOLLOWER


def test_voters_of_a_received_snapshot_count_once_it_is_loaded() -> None:
    at, snapshot = LoneVoter(1).follow(2, 3), SnapshotId(50, 2)
    at.answered(at.the_fetch(), received(1, VERSION_1, FIRST.to_record()))
    at.answered(at.the_fetch(), fetch_response(LEADER, divergence=snapshot))
    (request,) = at.sent(FetchSnapshotRequest)
    response = snapshot_response(LEADER, snapshot)
    response.topics[0].partitions[0].size = 1
    response.topics[0].partitions[0].unaligned_records = b"x"
    at.answered(request, response)
    assert (at.node.end_offset, ids(at.node.voters)) == (50, [1, 2, 3])
    at.node.snapshot_loaded(snapshot, SECOND, 1)
    assert ids(at.node.voters) == [1, 2, 3, 4]
    assert at.node.snapshot_voters(50) is at.node.voters
