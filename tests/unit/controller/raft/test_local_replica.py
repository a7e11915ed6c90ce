"""Timeouts, warnings and log changes that all roles share."""

from __future__ import annotations

from random import Random

import pytest

from controller.raft.local_replica import LocalReplica
from controller.raft.log import RaftLog
from controller.raft.messages import Timing
from controller.raft.voter_history import VoterHistory
from controller.raft.voters import Voter, VoterSet
from protocol.records.control import KRaftVersionRecord
from tests.unit.controller.lone_voter import VOTERS, me


def replica(node_id: int = 1, voters: VoterSet = VOTERS, random: Random | None = None) -> LocalReplica:
    return LocalReplica(me(node_id), VoterHistory(voters), RaftLog(0, 0), timing=Timing(), random=random, now_ms=70)


def test_election_timeout_is_one_to_two_times_its_setting() -> None:
    timeouts = [replica(random=Random(seed)).election_timeout() for seed in range(50)]
    assert 1070 <= min(timeouts) < 1200
    assert 1900 < max(timeouts) < 2070


def test_only_voter_does_not_wait_for_an_election() -> None:
    assert replica(voters=VoterSet([Voter(1)])).short_election_timeout() == 70
    assert replica().short_election_timeout() == 170


@pytest.mark.parametrize(("node_id", "stopping", "may"), [(1, False, True), (1, True, False), (9, False, False)])
def test_only_a_voter_that_does_not_stop_may_campaign(node_id: int, stopping: bool, may: bool) -> None:
    made = replica(node_id)
    made.stopping = stopping
    assert made.may_campaign is may


def test_warning_is_logged_once() -> None:
    made = replica()
    for number in (1, 1, 2):
        made.warn("node %s is odd", number)
    assert made.pending.warnings == ["node 1 is odd", "node 2 is odd"]


def test_appended_voters_count_until_they_are_withdrawn() -> None:
    made = replica()
    made.append(1, [KRaftVersionRecord(version=0, kraft_version=1), VoterSet([Voter(2)]).to_record()])
    assert (made.is_voter, made.other_voters, made.log.end_offset) == (False, [2], 2)
    made.withdraw(0)
    assert (made.is_voter, made.other_voters, made.log.end_offset) == (True, [2, 3], 0)
