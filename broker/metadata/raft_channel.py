"""The Raft channel: connections from this node to the quorum's voters (Kafka: `KafkaNetworkChannel`).

There are two per voter, opened on first use: one for requests that the receiver may defer (Fetch, FetchSnapshot), one
for requests that must not wait behind those (Vote, BeginQuorumEpoch, EndQuorumEpoch).

A voter whose fetch connection breaks and is not restored within `barnabas.broker.disconnect.grace.ms` is reported as
disconnected. If a reconnection is refused, nothing listens there any more, and it is reported at once. So a killed
leader is replaced in a fraction of the fetch timeout.
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
    from broker.network.network_client import NetworkClient
    from controller.raft.messages import OutboundRequest
    from protocol.schema import Message

    Connect = Callable[[int, Callable[[], None], Callable[[], None]], NetworkClient]

_DEFERRABLE = (FetchRequest, FetchSnapshotRequest)

_log = logging.getLogger("broker.controller")


class RaftChannel:
    """Sends the requests of one `RaftNode`."""

    def __init__(
        self,
        connect: Connect,
        loop: asyncio.AbstractEventLoop,
        *,
        grace_s: float,
        on_response: Callable[[OutboundRequest, Message | None], None],
        on_disconnect: Callable[[int], None],
    ) -> None:
        """`connect` returns a client for a node id; its callbacks are for a lost connection and for a refused one.

        `on_response` is called once per request (with None on failure), `on_disconnect` with the id of a voter.
        """
        self._connect = connect
        self._loop = loop
        self._grace_s = grace_s
        self._on_response = on_response
        self._on_disconnect = on_disconnect
        self._clients: dict[tuple[int, bool], NetworkClient] = {}
        self._graces: dict[int, asyncio.TimerHandle] = {}
        self._lost_at_s: dict[int, float] = {}
        self._incompatible: set[int] = set()

    def send(self, request: OutboundRequest) -> None:
        """Send a request to its node."""
        key = (request.to, isinstance(request.message, _DEFERRABLE))
        client = self._clients.get(key)
        if client is None:
            callbacks = (
                (partial(self._lost, request.to), partial(self._refused, request.to)) if key[1] else (_ignore, _ignore)
            )
            client = self._clients[key] = self._connect(request.to, *callbacks)
        client.call(request.message).add_done_callback(partial(self._done, request))

    def close(self) -> None:
        """Close all connections."""
        for grace in self._graces.values():
            grace.cancel()
        self._graces.clear()
        clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def _done(self, request: OutboundRequest, response: asyncio.Future[Message | None]) -> None:
        if response.cancelled():
            return
        error = response.exception()
        if error is not None and request.to not in self._incompatible:
            # It supports no version of this API: another program, or a much older version.
            self._incompatible.add(request.to)
            _log.warning("Request to node %d failed: %s", request.to, error)
        elif error is None and response.result() is not None:
            self._incompatible.discard(request.to)
            if _is_of_leader(response.result()):
                self._lost_at_s.clear()
            self._lost_at_s.pop(request.to, None)
        self._on_response(request, None if error is not None else response.result())

    def lost_at_ms(self) -> dict[int, int]:
        """Return the unreachable nodes, and the loop time in ms when their fetch connection broke.

        A node is listed until its fetch connection is open again or it sends any response. A successful Fetch response
        clears the list: its sender leads and has a list of its own. The time is 0 for a node that refused a
        reconnection: its process has exited.
        """
        return {
            node_id: int(lost_s * 1000)
            for node_id, lost_s in self._lost_at_s.items()
            if not self._clients[node_id, True].ready
        }

    def _lost(self, node_id: int) -> None:
        self._lost_at_s[node_id] = self._loop.time()
        if node_id not in self._graces:
            self._graces[node_id] = self._loop.call_later(self._grace_s, self._grace_over, node_id)
            self._clients[node_id, True].connect()

    def _refused(self, node_id: int) -> None:
        grace = self._graces.get(node_id)
        if grace is not None:
            grace.cancel()
            self._lost_at_s[node_id] = 0
            self._grace_over(node_id)

    def _grace_over(self, node_id: int) -> None:
        del self._graces[node_id]
        client = self._clients.get((node_id, True))
        if client is not None and not client.ready:
            self._on_disconnect(node_id)


def _is_of_leader(response: Message | None) -> bool:
    """Return whether a response is a successful Fetch, which only a leader returns."""
    return (
        isinstance(response, FetchResponse)
        and not response.error_code
        and not any(partition.error_code for topic in response.responses for partition in topic.partitions)
    )


def _ignore() -> None:
    """Do nothing: candidates resend their votes by themselves."""
