from __future__ import annotations

import pytest

from protocol.errors import DecodeError
from protocol.records.quorum_state import QuorumStateData, QuorumStateError, format_quorum_state, parse_quorum_state

# Written by Apache Kafka 4.3.
VERSION_0 = (
    '{"clusterId":"","leaderId":1,"leaderEpoch":5,"votedId":2,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1}],"data_version":0}'
)
VERSION_1 = '{"leaderId":1,"leaderEpoch":5,"votedId":2,"votedDirectoryId":"AAAAAAAAAAEAAAAAAAAAAg","data_version":1}'


def test_the_file_of_version_0_names_the_voters() -> None:
    state = parse_quorum_state(VERSION_0)
    assert state == QuorumStateData(
        leader_id=1, leader_epoch=5, voted_id=2, current_voters=[QuorumStateData.Voter(voter_id=1)]
    )
    assert format_quorum_state(state, 0) == VERSION_0


def test_the_file_of_version_1_names_the_directory_voted_for() -> None:
    state = parse_quorum_state(VERSION_1)
    assert state.voted_directory_id == bytes.fromhex("00000000000000010000000000000002")
    assert format_quorum_state(state, 1) == VERSION_1


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", VERSION_1[:-20], VERSION_1.replace("leaderId", "leader"), VERSION_1.replace('n":1', 'n":2')],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(DecodeError, match="quorum state"):
        parse_quorum_state(text)


@pytest.mark.parametrize(
    ("damaged", "field"),
    [
        (VERSION_0.replace('"leaderId":1', '"leaderId":"1"'), "leaderId"),
        (VERSION_0.replace('"leaderEpoch":5', '"leaderEpoch":2147483648'), "leaderEpoch"),
        (VERSION_0.replace('"voterId":1', '"voterId":null'), "currentVoters"),
        (VERSION_0.replace('"clusterId":""', '"clusterId":0'), "clusterId"),
        (VERSION_1.replace("AAAAAAAAAAEAAAAAAAAAAg", "AAAA"), "votedDirectoryId"),
        (VERSION_1.replace('n":1', 'n":true'), "data_version"),
        ("[" * 100_000, "data_version"),
    ],
)
def test_error_names_the_damaged_field(damaged: str, field: str) -> None:
    with pytest.raises(QuorumStateError) as caught:
        parse_quorum_state(damaged)
    assert caught.value.field == field
