"""Elections: whom a voter gives its vote, and who has won (Raft section 5.2 and 5.4.1, KIP-996).

Before a node begins a new epoch it asks, in the one that there is, whether it would be elected. That binds nobody and
is stored nowhere. Who hears of a live leader says no, and so a node that was cut off does not depose a leader that the
others are content with. A real vote is given once an epoch, to a log that has all that the voter's own has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from controller.raft.messages import NOBODY, QuorumState, Request, Role

if TYPE_CHECKING:
    from controller.raft.voters import VoterSet

_FIRST_BACKOFF_MS = 50


class Calls:
    """Requests to several nodes: one at a time to each, and again when it failed."""

    def __init__(self, node_ids: Iterable[int], now_ms: int) -> None:
        """Begin with all of `node_ids` due."""
        self._due_ms = dict.fromkeys(node_ids, now_ms)
        self._sent: dict[int, Request] = {}

    @property
    def due_ms(self) -> int | None:
        """Return when the next one is to be sent; None if that depends on answers alone."""
        return min(self._due_ms.values(), default=None)

    def due(self, now_ms: int) -> list[int]:
        """Return the nodes to send to now."""
        return [node_id for node_id, due_ms in self._due_ms.items() if due_ms <= now_ms]

    def sent(self, request: Request) -> None:
        """Take note of a request on its way."""
        self._due_ms.pop(request.to, None)
        self._sent[request.to] = request

    def ended(self, request: Request) -> bool:
        """Take note of its end; False if it is none of these requests."""
        if self._sent.get(request.to) is not request:
            return False
        del self._sent[request.to]
        return True

    def again(self, node_id: int, due_ms: int) -> None:
        """Send to a node at that time."""
        self._due_ms[node_id] = due_ms


class Ballot:
    """The votes of one election, or of the question whether to hold it."""

    def __init__(self, voters: VoterSet, node_id: int, now_ms: int) -> None:
        """Ask every voter but this node itself."""
        self.granted: set[int] = set()
        self.refused: set[int] = set()
        self.calls = Calls((voter_id for voter_id in voters.by_id if voter_id != node_id), now_ms)

    def won(self, voters: VoterSet) -> bool:
        """Say whether a majority is for it."""
        return voters.has_majority(self.granted)

    def lost(self, voters: VoterSet) -> bool:
        """Say whether so many are against it that no majority is left."""
        return len(voters.by_id) - len(self.refused & voters.by_id.keys()) < voters.majority


def would_vote(role: Role, state: QuorumState, candidate_id: int, *, leader_heard: bool) -> bool:
    """Say whether a voter, asked before an election, finds nothing against it but perhaps the candidate's log.

    It does if it leads, or follows a leader that it has heard and has no reason to believe gone; but its own leader
    asks only if it leads no more.
    """
    if role is Role.LEADER:
        return False
    return role is not Role.FOLLOWER or not leader_heard or candidate_id == state.leader_id


def may_vote(state: QuorumState, candidate_id: int, directory_id: bytes) -> bool:
    """Say whether a voter has its vote of this epoch left for this candidate: only while nobody won it."""
    given_to = (state.voted_id, state.voted_directory_id)
    return state.leader_id == NOBODY and (state.voted_id == NOBODY or given_to == (candidate_id, directory_id))


def backoff_ms(losses: int, limit_ms: int, chance: float) -> int:
    """Return how long who lost so many elections in a row stays quiet; `chance` is from 0 to 1."""
    longest = min(limit_ms, _FIRST_BACKOFF_MS << min(losses, 10))
    return min(longest, _FIRST_BACKOFF_MS // 2) + int(chance * longest)


def successors(end_offsets: Collection[tuple[int, int]]) -> list[int]:
    """Return the nodes of (node, end of its log) in the order in which they had better stand for election."""
    return [node_id for node_id, _ in sorted(end_offsets, key=lambda item: (-item[1], item[0]))]
