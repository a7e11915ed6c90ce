"""The roles of a node that requests votes: prospective and candidate (KIP-996).

Kafka: `ProspectiveState`, `CandidateState`.

Before a node starts a new epoch it requests pre-votes in the current one. A pre-vote binds nothing and is not stored. A
voter with a live leader refuses it, so a node that was cut off does not depose a leader that the others follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.raft.election import Ballot
from controller.raft.epoch_state import EpochState, Transition, earliest
from controller.raft.messages import ElectionState, OutboundRequest, Role
from controller.raft.wire import VoteResult, vote_request

if TYPE_CHECKING:
    from controller.raft.local_replica import LocalReplica
    from controller.raft.wire import ResponseHeader


class _NomineeState(EpochState):
    """A node that requests votes (Kafka: `NomineeState`)."""

    def __init__(self, replica: LocalReplica, election: ElectionState, deadline_ms: int | None) -> None:
        """Start with a request due to every other voter."""
        super().__init__(replica, election, deadline_ms)
        self.ballot = Ballot(replica.other_voters, replica.now_ms)

    @property
    def due_ms(self) -> int | None:
        return earliest(self.deadline_ms, self.ballot.requests.due_ms)

    def send_due(self) -> None:
        replica, requests = self._replica, self.ballot.requests
        pre_vote = self.role is Role.PROSPECTIVE
        for voter_id in requests.due(replica.now_ms):
            to = replica.voters.by_id[voter_id]
            requests.sent(
                replica.send(voter_id, vote_request(replica.key, to, self.epoch, replica.log.end, pre_vote=pre_vote))
            )

    def request_ended(self, request: OutboundRequest) -> bool:
        return self.ballot.requests.request_ended(request)

    def response_received(self, request: OutboundRequest, response: ResponseHeader | None) -> Transition | None:
        ballot = self.ballot
        if response is None:
            ballot.requests.schedule(request.to, self._replica.now_ms + self._replica.timing.retry_backoff_ms)
            return None
        if not response.error and isinstance(response.partition, VoteResult) and response.partition.vote_granted:
            ballot.granted.add(request.to)
        else:
            ballot.refused.add(request.to)
        return self.count_votes()

    def count_votes(self) -> Transition | None:
        """Return the transition that the votes so far result in."""
        raise NotImplementedError

    def stop_campaigning(self) -> Transition | None:
        return Transition.FIND_LEADER


class ProspectiveState(_NomineeState):
    """A voter that requests pre-votes in its current epoch; its own counts at once."""

    role = Role.PROSPECTIVE

    def __init__(self, replica: LocalReplica, election: ElectionState, deadline_ms: int | None) -> None:
        super().__init__(replica, election, deadline_ms)
        self.ballot.granted.add(replica.node_id)

    def check_deadlines(self) -> Transition | None:
        """Return PRE_VOTE_LOST if the election timeout is over."""
        return Transition.PRE_VOTE_LOST if super().check_deadlines() else None

    def count_votes(self) -> Transition | None:
        """Return CAMPAIGN with a majority of the pre-votes, PRE_VOTE_LOST if none is left."""
        voters = self._replica.voters
        if self.ballot.won(voters):
            return Transition.CAMPAIGN
        return Transition.PRE_VOTE_LOST if self.ballot.lost(voters) else None


class CandidateState(_NomineeState):
    """A voter that requests votes in a new epoch; its own counts once it is stored."""

    role = Role.CANDIDATE

    def election_stored(self, election: ElectionState) -> Transition | None:
        """Count this node's own vote."""
        if election.epoch != self.epoch:
            return None
        self.ballot.granted.add(election.voted_id)
        return self.count_votes()

    def count_votes(self) -> Transition | None:
        """Return LEAD with a majority of the votes; if none is left, the next pre-votes follow after the backoff."""
        voters = self._replica.voters
        if self.ballot.won(voters):
            return Transition.LEAD
        if self.ballot.lost(voters) and self.deadline_ms is not None:
            self.deadline_ms = min(self.deadline_ms, self._replica.election_backoff())
        return None
