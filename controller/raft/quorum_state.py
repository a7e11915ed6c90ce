"""The role of this node, and the transitions between roles (Kafka: `QuorumState`).

    role         event                                        next role
    unattached   election timeout                             prospective
    follower     fetch timeout, leader disconnected           prospective
                 its leader resigned                          candidate if it is the preferred successor, else
                                                              prospective after a delay
    prospective  a majority grants its pre-vote               candidate
                 refused, or election timeout                 follower of its last leader, or unattached without one;
                                                              prospective again after the backoff
    candidate    on entry                                     (starts the next epoch and votes for itself)
                 a majority votes for it                      leader: starts its epoch with a LeaderChange entry
                 refused, or election timeout                 prospective, if refused after the backoff
    leader       no majority fetches, or controlled stop      resigned: sends EndQuorumEpoch with preferred successors
    resigned     election timeout                             prospective
    observer     fetch timeout, leader disconnected or        unattached
                 resigned
    any          a later epoch                                follower of its leader; unattached if that is unknown
                 a message with the leader of this epoch      follower (observer if this node is no voter)

    role         deadline                                           until then
    unattached   election timeout, at random up to twice as long    sends Fetch to any voter to find the leader
    prospective  the same                                           requests pre-votes
    candidate    the same                                           requests votes
    leader       1.5 fetch timeouts without a majority's Fetch      sends BeginQuorumEpoch to voters that do not fetch
    follower     fetch timeout; less if the leader is suspected     fetches
    observer     fetch timeout                                      fetches
    resigned     as unattached                                      is idle

The only voter of a quorum is a majority by itself: it becomes a candidate at once and goes through the same steps
without messages. A node that may not start elections has no election deadline.

The election state survives restarts; it changes with the epoch, with a vote, and when the leader becomes known.
"""

from controller.raft.epoch_state import EpochState, Transition
from controller.raft.follower import FollowerState, UnattachedState
from controller.raft.leader import LeaderState
from controller.raft.local_replica import LocalReplica
from controller.raft.messages import ElectionState, Role
from controller.raft.nominee import CandidateState, ProspectiveState
from controller.raft.wire import LeaderAndEpoch, end_request


class ResignedState(EpochState):
    """A node that led its epoch and resigned."""

    role = Role.RESIGNED


class QuorumState:
    """The current role, in `state`."""

    def __init__(self, replica: LocalReplica, election: ElectionState) -> None:
        """Start with the stored `election`; if another node led then, fetch from it but suspect it at once."""
        self._replica = replica
        self._transitions = {
            Transition.FIND_LEADER: self._find_leader,
            Transition.FIND_LEADER_AFTER_BACKOFF: self._find_leader_after_backoff,
            Transition.PRE_VOTE: self._become_prospective,
            Transition.PRE_VOTE_LOST: self._lose_pre_vote,
            Transition.CAMPAIGN: self.become_candidate,
            Transition.LEAD: self._become_leader,
            Transition.RESIGN: self._resign,
        }
        self.state: EpochState = self._unattached(election, replica.short_election_timeout())
        if self._has_other_leader:
            self.become_follower(election.epoch, election.leader_id)
            if replica.is_voter:
                self.state.suspect_leader()

    @property
    def election(self) -> ElectionState:
        """Return the election state, stored or to be stored."""
        return self.state.election

    @property
    def epoch(self) -> int:
        """Return the current epoch."""
        return self.state.election.epoch

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """Return the live leader and the epoch."""
        return LeaderAndEpoch(self.state.leader_id, self.epoch)

    @property
    def _has_other_leader(self) -> bool:
        """Return whether another voter is the last known leader of this epoch."""
        leader_id = self.election.leader_id
        return leader_id in self._replica.voters and leader_id != self._replica.node_id

    def perform(self, transition: Transition | None) -> None:
        """Perform the transition that a role requires, if any."""
        if transition is not None:
            self._transitions[transition]()

    def _enter(self, state: EpochState) -> None:
        self.state.leave()
        if state.election != self.election:
            self._replica.pending.election_state = state.election
        self.state = state

    def become_unattached(self, election: ElectionState, deadline_ms: int) -> None:
        """Look for the leader; a voter starts pre-votes at `deadline_ms`."""
        self._enter(self._unattached(election, deadline_ms))

    def _unattached(self, election: ElectionState, deadline_ms: int) -> UnattachedState:
        return UnattachedState(self._replica, election, self._election_deadline(deadline_ms), self._replica.now_ms)

    def _election_deadline(self, deadline_ms: int) -> int | None:
        return deadline_ms if self._replica.may_campaign else None

    def _find_leader(self) -> None:
        self.become_unattached(self.election, self._replica.now_ms)

    def _find_leader_after_backoff(self) -> None:
        retry_ms = self._replica.now_ms + self._replica.timing.retry_backoff_ms
        self._enter(UnattachedState(self._replica, self.election, None, retry_ms))

    def become_follower(self, epoch: int, leader_id: int) -> None:
        """Follow the leader of `epoch`."""
        self._enter(FollowerState(self._replica, ElectionState(epoch, leader_id=leader_id)))

    def _become_prospective(self) -> None:
        deadline_ms = self._election_deadline(self._replica.election_timeout())
        state = ProspectiveState(self._replica, self.election, deadline_ms)
        self._enter(state)
        self.perform(state.count_votes())

    def _lose_pre_vote(self) -> None:
        """Return to the last known leader, or wait for one; the next pre-votes follow after the backoff."""
        if self._has_other_leader:
            self.become_follower(self.epoch, self.election.leader_id)
            self.state.suspect_leader(self._replica.election_backoff())
        else:
            self.become_unattached(self.election, self._replica.election_backoff())

    def become_candidate(self) -> None:
        """Start the next epoch and vote for this node; the vote counts once it is stored."""
        replica = self._replica
        deadline_ms = self._election_deadline(replica.election_timeout())
        election = ElectionState(
            # If the election state was lost, the log may have a later epoch.
            max(self.epoch, replica.log.end_epoch) + 1,
            voted_id=replica.node_id,
            voted_directory_id=replica.voters.by_id[replica.node_id].directory_id,
        )
        self._enter(CandidateState(replica, election, deadline_ms))

    def _become_leader(self) -> None:
        candidate, replica = self.state, self._replica
        if isinstance(candidate, CandidateState):
            replica.lost_elections = 0
            leader = LeaderState(replica, ElectionState(self.epoch, leader_id=replica.node_id))
            self._enter(leader)
            leader.begin(candidate.ballot.granted)

    def _resign(self) -> None:
        """Give up leadership and send EndQuorumEpoch with the preferred successors."""
        leader, replica = self.state, self._replica
        if isinstance(leader, LeaderState):
            successors = leader.successors()
            deadline_ms = self._election_deadline(replica.election_timeout())
            self._enter(ResignedState(replica, self.election, deadline_ms))
            for voter in successors:
                replica.send(voter.voter_id, end_request(replica.key, self.epoch, successors))
