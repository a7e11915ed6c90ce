"""The role of a node in its epoch: the events that each role handles (Kafka: `EpochState`).

Each role is a class with the state that it needs and its deadlines; entering a role constructs its object completely,
and leaving it drops the object. A role changes no other role: it returns the transition that an event requires, and
`QuorumState` performs it.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from controller.raft.messages import NO_NODE, ElectionState, OutboundRequest, Role

if TYPE_CHECKING:
    from controller.raft.local_replica import LocalReplica
    from controller.raft.wire import ResponseHeader


class Transition(Enum):
    """A change of role that an event requires."""

    FIND_LEADER = auto()
    """To unattached, to look for the leader at once."""
    FIND_LEADER_AFTER_BACKOFF = auto()
    PRE_VOTE = auto()
    """To prospective."""
    PRE_VOTE_LOST = auto()
    """To follower of the last leader, or unattached without one."""
    CAMPAIGN = auto()
    """To candidate of the next epoch."""
    LEAD = auto()
    RESIGN = auto()


class EpochState:
    """A role; these methods are for roles that ignore the event."""

    def __init__(self, replica: LocalReplica, election: ElectionState, deadline_ms: int | None) -> None:
        """`election` is stored before this role takes effect; at `deadline_ms` the role times out."""
        self.election = election
        self.deadline_ms = deadline_ms
        self._replica = replica

    @property
    def role(self) -> Role:
        """Return the role."""
        raise NotImplementedError

    @property
    def epoch(self) -> int:
        """Return the epoch."""
        return self.election.epoch

    @property
    def leader_id(self) -> int:
        """Return the live leader as this node knows it, or NO_NODE."""
        return NO_NODE

    @property
    def due_ms(self) -> int | None:
        """Return when `check_deadlines` or `send_due` has to be called; None if only other events can cause actions."""
        return self.deadline_ms

    def check_deadlines(self) -> Transition | None:
        """Return the transition that is due by time."""
        due = self.deadline_ms is not None and self._replica.now_ms >= self.deadline_ms
        return Transition.PRE_VOTE if due else None

    def send_due(self) -> None:
        """Send the requests that are due."""

    def request_ended(self, _request: OutboundRequest) -> bool:
        """Record the end of a request; return False if it was not this role's, or is no longer outstanding."""
        return False

    def response_received(self, _request: OutboundRequest, _response: ResponseHeader | None) -> Transition | None:
        """Process the response, or None, to a request for which `request_ended` returned True."""
        return None

    def election_stored(self, _election: ElectionState) -> Transition | None:
        """Record that the election state is durable."""
        return None

    def leader_contacted(self) -> None:
        """Record that the leader is live."""

    def suspect_leader(self, _deadline_ms: int | None = None) -> Transition | None:
        """Suspect the leader; a follower waits until the deadline, or a tenth of the election timeout."""
        return None

    def grants_pre_vote(self, _candidate_id: int) -> bool:
        """Return whether this role lets a voter grant a pre-vote; the comparison of logs is left to the caller."""
        return True

    def stop_campaigning(self) -> Transition | None:
        """Start no more elections."""
        self.deadline_ms = None
        return None

    def leave(self) -> None:
        """End this role, before the next one takes effect."""


def earliest(*times_ms: int | None) -> int | None:
    """Return the earliest of the times; None if all are None."""
    return min((time_ms for time_ms in times_ms if time_ms is not None), default=None)
