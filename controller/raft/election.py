"""Elections: the requests to the voters, the votes, and the backoff after a lost election (Raft section 5.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.raft.messages import OutboundRequest
    from controller.raft.voters import VoterSet

_FIRST_BACKOFF_MS = 50


class RequestManager:
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

    def request_ended(self, request: OutboundRequest) -> bool:
        """Record the end of `request`; return False if it is not outstanding."""
        if self._sent.get(request.to) is not request:
            return False
        del self._sent[request.to]
        return True

    def schedule(self, node_id: int, due_ms: int) -> None:
        """Schedule the next request to a node."""
        self._due_ms[node_id] = due_ms


class Ballot:
    """The votes of one election or of one round of pre-votes (Kafka: `EpochElection`)."""

    def __init__(self, other_voters: Iterable[int], now_ms: int) -> None:
        """Start with a request due to every other voter."""
        self.granted: set[int] = set()
        self.refused: set[int] = set()
        self.requests = RequestManager(other_voters, now_ms)

    def won(self, voters: VoterSet) -> bool:
        """Return whether a majority granted its vote."""
        return voters.has_majority(self.granted)

    def lost(self, voters: VoterSet) -> bool:
        """Return whether too many voters refused for a majority to remain."""
        return len(voters.by_id) - len(self.refused & voters.by_id.keys()) < voters.majority


def backoff_ms(losses: int, limit_ms: int, fraction: float) -> int:
    """Return the backoff in ms after `losses` lost elections in a row: 25 to 25 + min(limit_ms, 50 * 2**losses).

    `fraction`, from 0 to 1, selects the value.
    """
    longest = min(limit_ms, _FIRST_BACKOFF_MS << min(losses, 10))
    return min(longest, _FIRST_BACKOFF_MS // 2) + int(fraction * longest)
