"""Elections: whether a voter grants its vote, and which candidate has won (Raft sections 5.2 and 5.4.1, KIP-996).

Before a node starts a new epoch it requests pre-votes in the current one. A pre-vote binds nothing and is not stored. A
voter with a live leader refuses it, so a node that was cut off does not depose a leader that the others follow. A voter
grants one vote an epoch, to a log at least as up to date as its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from controller.raft.messages import NO_NODE, OutboundRequest, QuorumState, Role

if TYPE_CHECKING:
    from controller.raft.voters import VoterSet

_FIRST_BACKOFF_MS = 50


class Calls:
    """Requests to several nodes: at most one outstanding to each, resent after failures."""

    def __init__(self, node_ids: Iterable[int], now_ms: int) -> None:
        """Start with a request due to each of `node_ids`."""
        self._due_ms = dict.fromkeys(node_ids, now_ms)
        self._sent: dict[int, OutboundRequest] = {}

    @property
    def due_ms(self) -> int | None:
        """Return when the next request is due; None if only a response can make one due."""
        return min(self._due_ms.values(), default=None)

    def due(self, now_ms: int) -> list[int]:
        """Return the nodes to which a request is due."""
        return [node_id for node_id, due_ms in self._due_ms.items() if due_ms <= now_ms]

    def sent(self, request: OutboundRequest) -> None:
        """Record `request` as outstanding."""
        self._due_ms.pop(request.to, None)
        self._sent[request.to] = request

    def ended(self, request: OutboundRequest) -> bool:
        """Record the end of `request`; return False if it is not outstanding."""
        if self._sent.get(request.to) is not request:
            return False
        del self._sent[request.to]
        return True

    def again(self, node_id: int, due_ms: int) -> None:
        """Schedule the next request to a node."""
        self._due_ms[node_id] = due_ms


class Ballot:
    """The votes of one election or of one round of pre-votes (Kafka: `EpochElection`)."""

    def __init__(self, voters: VoterSet, node_id: int, now_ms: int) -> None:
        """Start with a request due to every other voter."""
        self.granted: set[int] = set()
        self.refused: set[int] = set()
        self.calls = Calls((voter_id for voter_id in voters.by_id if voter_id != node_id), now_ms)

    def won(self, voters: VoterSet) -> bool:
        """Return whether a majority granted its vote."""
        return voters.has_majority(self.granted)

    def lost(self, voters: VoterSet) -> bool:
        """Return whether too many voters refused for a majority to remain."""
        return len(voters.by_id) - len(self.refused & voters.by_id.keys()) < voters.majority


def would_vote(role: Role, state: QuorumState, candidate_id: int, *, leader_heard: bool) -> bool:
    """Return whether a voter grants a pre-vote; the comparison of logs is left to the caller.

    A leader refuses, and so does a follower whose leader is live and not suspected. The leader itself gets the
    pre-vote: it requests one only when it no longer leads.
    """
    if role is Role.LEADER:
        return False
    return role is not Role.FOLLOWER or not leader_heard or candidate_id == state.leader_id


def may_vote(state: QuorumState, candidate_id: int, directory_id: bytes) -> bool:
    """Return whether the vote of this epoch can go to this candidate: no leader is known, and no other got the vote."""
    given_to = (state.voted_id, state.voted_directory_id)
    return state.leader_id == NO_NODE and (state.voted_id == NO_NODE or given_to == (candidate_id, directory_id))


def backoff_ms(losses: int, limit_ms: int, chance: float) -> int:
    """Return the backoff in ms after `losses` lost elections in a row: 25 to 25 + min(limit_ms, 50 * 2**losses).

    `chance`, from 0 to 1, selects the value.
    """
    longest = min(limit_ms, _FIRST_BACKOFF_MS << min(losses, 10))
    return min(longest, _FIRST_BACKOFF_MS // 2) + int(chance * longest)


def successors(end_offsets: Collection[tuple[int, int]]) -> list[int]:
    """Return the nodes of (node, end of its log) in order of preference: longest log first, then lowest id."""
    return [node_id for node_id, _ in sorted(end_offsets, key=lambda item: (-item[1], item[0]))]
