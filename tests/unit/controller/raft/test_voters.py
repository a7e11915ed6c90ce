"""Voter sets and majorities."""

from __future__ import annotations

import pytest

from controller.raft.voters import Voter, VoterEndpoint, VoterSet


def voters(*ids: int) -> VoterSet:
    return VoterSet([Voter(number) for number in ids])


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_majority_is_more_than_half(count: int, majority: int) -> None:
    quorum = voters(*range(count))
    assert not quorum.has_majority(range(majority - 1))
    assert quorum.has_majority(range(majority))


def test_non_voters_do_not_count() -> None:
    assert not voters(1, 2, 3).has_majority({1, 7, 8})


@pytest.mark.parametrize(
    ("offsets", "agreed"),
    [({1: 9}, 0), ({1: 9, 2: 5}, 5), ({1: 9, 2: 5, 3: 7}, 7), ({1: 9, 2: 9, 3: 0}, 9), ({7: 99, 1: 3}, 0)],
)
def test_majority_offset_is_the_median_of_the_voters(offsets: dict[int, int], agreed: int) -> None:
    assert voters(1, 2, 3).majority_offset(offsets) == agreed


def test_voters_are_encoded_as_a_record() -> None:
    quorum = VoterSet([Voter(2, b"d" * 16, (VoterEndpoint("CONTROLLER", "host", 9093),)), Voter(1, b"e" * 16)])
    again = VoterSet.from_record(quorum.to_record())
    assert list(again.by_id.values()) == list(quorum.by_id.values())
    assert list(again.by_id) == [1, 2]


def test_voter_set_is_not_empty_and_has_no_duplicates() -> None:
    with pytest.raises(ValueError, match="at least one"):
        VoterSet([])
    with pytest.raises(ValueError, match="same id"):
        voters(1, 1)
