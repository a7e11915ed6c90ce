"""The connections from this node to the quorum's voters.

There are two to each, opened at their first use: one for what may be held back (Fetch, FetchSnapshot), one for what
must not wait behind that (Vote, BeginQuorumEpoch, EndQuorumEpoch).

A voter whose fetch connection breaks and is not back within `barnabas.broker.disconnect.grace.ms` is taken for gone.
One whose system then says that nobody listens there any more is gone at once. That is how a killed leader is replaced
in a fraction of the fetch time-out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotRequest

if TYPE_CHECKING:
    from broker.network.network_client import Peer
    from controller.raft.messages import Request
    from protocol.schema import Message

    Connect = Callable[[int, Callable[[], None], Callable[[], None]], Peer]

_HELD_BACK = (FetchRequest, FetchSnapshotRequest)

_log = logging.getLogger("broker.controller")


class QuorumPeers:
    """Sends the requests of one RaftNode."""

    def __init__(
        self,
        connect: Connect,
        loop: asyncio.AbstractEventLoop,
        *,
        grace_s: float,
        answered: Callable[[Request, Message | None], None],
        disconnected: Callable[[int], None],
    ) -> None:
        """`connect` makes a peer of a node's id and of what to call when its connection is lost, and another refused.

        `answered` is called once for each request, `disconnected` with a node that is taken for gone.
        """
        self._connect = connect
        self._loop = loop
        self._grace_s = grace_s
        self._answered = answered
        self._disconnected = disconnected
        self._peers: dict[tuple[int, bool], Peer] = {}
        self._graces: dict[int, asyncio.TimerHandle] = {}
        self._lost_at_s: dict[int, float] = {}
        self._strange: set[int] = set()

    def send(self, request: Request) -> None:
        """Send a request to its node."""
        key = (request.to, isinstance(request.message, _HELD_BACK))
        peer = self._peers.get(key)
        if peer is None:
            told = (
                (partial(self._lost, request.to), partial(self._refused, request.to)) if key[1] else (_ignore, _ignore)
            )
            peer = self._peers[key] = self._connect(request.to, *told)
        peer.call(request.message).add_done_callback(partial(self._done, request))

    def close(self) -> None:
        """Close all connections."""
        for grace in self._graces.values():
            grace.cancel()
        self._graces.clear()
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            peer.close()

    def _done(self, request: Request, response: asyncio.Future[Message | None]) -> None:
        if response.cancelled():
            return
        error = response.exception()
        if error is not None and request.to not in self._strange:
            # It speaks no version of this: another program, or a much older one.
            self._strange.add(request.to)
            _log.warning("Node %d cannot be asked: %s", request.to, error)
        elif error is None and response.result() is not None:
            self._strange.discard(request.to)
            if _is_of_leader(response.result()):
                self._lost_at_s.clear()
            self._lost_at_s.pop(request.to, None)
        self._answered(request, None if error is not None else response.result())

    def lost_at_ms(self) -> dict[int, int]:
        """Return the nodes that have answered nothing since their fetch connection broke, and when it did.

        That was at 0 for those whose processes have ended. It is forgotten once somebody answers a fetch, who leads and
        knows better; and a vote is an answer too.
        """
        return {
            node_id: int(lost_s * 1000)
            for node_id, lost_s in self._lost_at_s.items()
            if not self._peers[node_id, True].ready
        }

    def _lost(self, node_id: int) -> None:
        self._lost_at_s[node_id] = self._loop.time()
        if node_id not in self._graces:
            self._graces[node_id] = self._loop.call_later(self._grace_s, self._is_gone, node_id)
            self._peers[node_id, True].connect()

    def _refused(self, node_id: int) -> None:
        grace = self._graces.get(node_id)
        if grace is not None:
            grace.cancel()
            self._lost_at_s[node_id] = 0
            self._is_gone(node_id)

    def _is_gone(self, node_id: int) -> None:
        del self._graces[node_id]
        peer = self._peers.get((node_id, True))
        if peer is not None and not peer.ready:
            self._disconnected(node_id)


def _is_of_leader(answer: Message | None) -> bool:
    """Say whether an answer is what only a leader gives."""
    return (
        isinstance(answer, FetchResponse)
        and not answer.error_code
        and not any(partition.error_code for topic in answer.responses for partition in topic.partitions)
    )


def _ignore() -> None:
    """Votes are asked for again by their candidate."""
