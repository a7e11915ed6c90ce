from protocol.records.control import LeaderChangeMessage, VotersRecord


def test_a_leader_change_names_directories_from_version_1_on() -> None:
    voter = LeaderChangeMessage.Voter(voter_id=1, voter_directory_id=b"d" * 16)
    change = LeaderChangeMessage(version=1, leader_id=1, voters=[voter], granting_voters=[voter])
    assert LeaderChangeMessage.decode(change.encode(1), 1) == change


def test_voters_have_endpoints_and_supported_levels() -> None:
    voter = VotersRecord.Voter(
        voter_id=1,
        voter_directory_id=b"d" * 16,
        endpoints=[VotersRecord.Voter.Endpoint(name="CONTROLLER", host="localhost", port=65535)],
        kraft_version_feature=VotersRecord.Voter.KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    voters = VotersRecord(version=0, voters=[voter])
    assert VotersRecord.decode(voters.encode(0), 0) == voters
