"""The voters of the quorum, and what a majority of them has stored (Raft section 5, KIP-853; Kafka: `VoterSet`).

A voter is identified by its id and, where the voters can change, by the id of its log directory: a voter that lost its
disk is a different voter. With `kraft.version` 0 the voters are those of `controller.quorum.voters`, without
directories.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from protocol.records.control import VotersRecord

NO_DIRECTORY = bytes(16)

KRAFT_VERSIONS = (0, 1)


class VoterEndpoint(NamedTuple):
    """The address of a controller listener."""

    name: str
    host: str
    port: int


class Voter(NamedTuple):
    """One voter and its controller listeners."""

    voter_id: int
    directory_id: bytes = NO_DIRECTORY
    endpoints: tuple[VoterEndpoint, ...] = ()


class VoterSet:
    """The voters of a quorum; at least one."""

    def __init__(self, voters: Collection[Voter]) -> None:
        if not voters:
            raise ValueError("a quorum has at least one voter")
        self.by_id: Mapping[int, Voter] = {
            voter.voter_id: voter for voter in sorted(voters, key=lambda voter: voter.voter_id)
        }
        if len(self.by_id) < len(voters):
            raise ValueError("two voters have the same id")

    def __contains__(self, voter_id: int) -> bool:
        return voter_id in self.by_id

    @property
    def majority(self) -> int:
        """Return the size of the smallest majority."""
        return len(self.by_id) // 2 + 1

    def has_majority(self, ids: Collection[int]) -> bool:
        """Return whether a majority of the voters is among `ids`."""
        return len(self.by_id.keys() & set(ids)) >= self.majority

    def majority_offset(self, end_offsets: Mapping[int, int]) -> int:
        """Return the largest offset up to which a majority has the log; voters not in `end_offsets` count as 0."""
        reached = sorted((end_offsets.get(voter_id, 0) for voter_id in self.by_id), reverse=True)
        return reached[self.majority - 1]

    def to_record(self) -> VotersRecord:
        """Return the voters as a control record."""
        low, high = KRAFT_VERSIONS
        return VotersRecord(
            version=0,
            voters=[
                VotersRecord.Voter(
                    voter_id=voter.voter_id,
                    voter_directory_id=voter.directory_id,
                    endpoints=[
                        VotersRecord.Voter.Endpoint(name=name, host=host, port=port)
                        for name, host, port in voter.endpoints
                    ],
                    kraft_version_feature=VotersRecord.Voter.KRaftVersionFeature(
                        min_supported_version=low, max_supported_version=high
                    ),
                )
                for voter in self.by_id.values()
            ],
        )

    @classmethod
    def from_record(cls, record: VotersRecord) -> VoterSet:
        """Return the voters of a control record."""
        return cls(
            [
                Voter(
                    voter.voter_id,
                    voter.voter_directory_id,
                    tuple(VoterEndpoint(point.name, point.host, point.port) for point in voter.endpoints),
                )
                for voter in record.voters
            ]
        )
