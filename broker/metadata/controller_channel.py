"""The way to the active controller: a method call if this node leads the quorum, else a connection to who does.

Brokers ask for themselves (`call`: registration, heartbeats, changes of ISRs, blocks of producer ids) and for their
clients (`forward`: in an Envelope that names the client's principal and address, KIP-590). Either goes on trying, with
whoever leads by then, until its time is over: a request whose connection broke may have been carried out, and is asked
again all the same, as Kafka's brokers do.

Each request has a connection to itself while it waits, since answers come in the order of their requests: a heartbeat
must not wait behind the creation of a topic. What clients ask, or cause to be asked, takes turns, so that they cannot
make a broker open any number of connections. Who leads is the raft driver's knowledge; the other end of an Envelope is
`broker.handlers.envelope`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from controller.raft.messages import NOBODY
from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.headers import RequestHeader, encode_request_header
from protocol.primitives import Part
from protocol.records.principal import encode_principal
from protocol.schema import Message

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.network.network_client import Peer

T = TypeVar("T")

FORWARDED = frozenset(
    {
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UPDATE_FEATURES,
    }
)
"""What clients ask any broker, and only the controller decides."""

LEADS_NO_MORE = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER})
"""With what a controller refuses, of what is in `FORWARDED`, once another leads: then that one is asked."""

MOST_FORWARDED = 16
"""How many requests for clients wait for the answer of another node at a time."""

_log = logging.getLogger("broker.controller")

_RETRY_S = 0.05
_PATIENCE_S = 30.0


class Leadership(Protocol):
    """What the channel asks of the raft driver."""

    @property
    def leads(self) -> bool:
        """Say whether this node is the active controller."""
        ...

    @property
    def leader_id(self) -> int:
        """Return the node that leads the quorum, -1 if none is known."""
        ...

    @property
    def epoch(self) -> int:
        """Return the epoch of the quorum."""
        ...

    @property
    def is_stranger(self) -> bool:
        """Say whether most voters are of another cluster."""
        ...

    def leader_change(self) -> asyncio.Future[None]:
        """Return a future that is done when the leader or its epoch changes."""
        ...


class ControllerChannel:
    """Requests of this node and of its clients to the active controller."""

    def __init__(
        self,
        quorum: Leadership,
        connect: Callable[[int], Peer],
        answer_here: Callable[[Message], Awaitable[Message]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`connect` gives the connection to a controller; `answer_here` is asked while this node is it."""
        self._quorum = quorum
        self._connect = connect
        self._answer_here = answer_here
        self._loop = loop
        self._peers: dict[Peer, None] = {}  # in the order in which they were made
        self._closing: asyncio.Future[None] = loop.create_future()
        self._idle: list[Peer] = []
        self._turns = asyncio.Semaphore(MOST_FORWARDED)
        self._peer_id = NOBODY

    def close(self) -> None:
        """Close all connections; what waits for an answer gets none, and nothing is asked any more."""
        if not self._closing.done():
            self._closing.set_result(None)
        self._drop_connections()

    def _drop_connections(self) -> None:
        peers, self._peers, self._idle = self._peers, {}, []
        for peer in peers:
            peer.close()

    async def call(self, request: Message, timeout_s: float, *, for_client: bool = False) -> Any:
        """Return the controller's answer to this node, which asks for itself, or since a client has it do so.

        KafkaError REQUEST_TIMED_OUT if there is none in time, INCONSISTENT_CLUSTER_ID if there will be none, as the
        controllers are of another cluster.
        """

        async def there(peer: Peer) -> Message | None:
            answer = await peer.call(request)
            return None if answer is None or set(codes(answer)) == {ErrorCode.NOT_CONTROLLER} else answer

        codes = _ERROR_CODES[ApiKey(cast("int", request.API_KEY))]
        turn = self._turns if for_client else nullcontext()
        return await self._try(lambda: self._answer_here(request), there, timeout_s, turn)

    def send(self, request: Message) -> asyncio.Future[Message | None]:
        """Return the controller's answer to this node; None if there is none in good time."""
        return self._loop.create_task(self._call_or_none(request))

    async def _call_or_none(self, request: Message) -> Message | None:
        try:
            found: Message = await self.call(request, _PATIENCE_S)
        except KafkaError as error:
            if error.code is not ErrorCode.REQUEST_TIMED_OUT:
                _log.warning("The controller cannot be asked: %s", error)
            return None
        return found

    async def forward(
        self, context: RequestContext, request: Message, here: Callable[[], Awaitable[Any]], timeout_s: float
    ) -> Any:
        """Return the controller's answer to a client: that of `here` if this node is it by then, else a whole frame."""
        from protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse

        header = RequestHeader(ApiKey(context.api_key), context.api_version, context.correlation_id, context.client_id)
        envelope = EnvelopeRequest(
            request_data=encode_request_header(header) + request.encode(context.api_version),
            request_principal=encode_principal(context.principal),
            client_host_address=ip_address(context.client_host).packed,
        )

        async def there(peer: Peer) -> list[Part] | None:
            answer = await peer.call(envelope)
            if not isinstance(answer, EnvelopeResponse) or answer.error_code in LEADS_NO_MORE:
                return None
            if answer.error_code or answer.response_data is None:
                code = ErrorCode(answer.error_code) if answer.error_code else ErrorCode.UNKNOWN_SERVER_ERROR
                raise KafkaError(code, "The controller did not take the request from this broker.")
            return [len(answer.response_data).to_bytes(4, "big") + answer.response_data]

        return await self._try(here, there, timeout_s, self._turns)

    async def _try(
        self,
        here: Callable[[], Awaitable[Any]],
        there: Callable[[Peer], Awaitable[T | None]],
        timeout_s: float,
        turn: AbstractAsyncContextManager[object],
    ) -> Any:
        try:
            async with asyncio.timeout(timeout_s):
                while not self._closing.done():
                    changed = self._quorum.leader_change()
                    answer: Any = None
                    if self._quorum.leads:
                        try:
                            answer = await here()
                        except KafkaError as error:
                            if error.code not in LEADS_NO_MORE:
                                raise
                    elif self._quorum.leader_id >= 0:
                        async with turn:
                            answer = await self._exchange(there)
                    elif self._quorum.is_stranger:
                        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, "The controllers are of another cluster.")
                    if answer is not None:
                        return answer
                    either = (changed, self._closing)
                    await asyncio.wait(either, timeout=_RETRY_S, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The controller did not answer in time.") from None
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "This node is stopping.")

    async def _exchange(self, there: Callable[[Peer], Awaitable[T | None]]) -> T | None:
        """Ask who leads on a connection that nobody else waits for; None if no other node does by now, or answers."""
        leader = self._quorum.leader_id
        if leader < 0 or self._quorum.leads or self._closing.done():
            return None
        if leader != self._peer_id:
            self._drop_connections()
            self._peer_id = leader
        peer = self._idle.pop() if self._idle else self._connect(leader)
        self._peers[peer] = None
        whole = False
        try:
            asked = asyncio.ensure_future(there(peer))
            await self._while_it_leads(leader, self._quorum.epoch, asked)
            if asked.done():
                whole = peer in self._peers
                return asked.result()
            asked.cancel()
            return None
        finally:
            if whole:
                self._idle.append(peer)
            else:  # what was asked may lie before what is asked next
                self._peers.pop(peer, None)
                peer.close()

    async def _while_it_leads(self, leader: int, epoch: int, asked: asyncio.Future[Any]) -> None:
        """Wait for the answer of `leader` until the quorum has a leader in another epoch.

        The old leader may hang or be unreachable. One that leads again in a later epoch does not answer either if its
        power was cut: the connection stays half-open, because this side has sent all it had to send.
        """
        quorum = self._quorum
        try:
            while not asked.done() and (
                quorum.leader_id == NOBODY or (quorum.leader_id, quorum.epoch) == (leader, epoch)
            ):
                waiting: set[asyncio.Future[Any]] = {asked, quorum.leader_change()}
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            asked.cancel()
            raise


def _code_of_all(answer: Any) -> Iterable[int]:
    return (answer.error_code,)


# Where the answers to this node's own requests have their error codes.
_ERROR_CODES: Mapping[ApiKey, Callable[[Any], Iterable[int]]] = {
    ApiKey.ALLOCATE_PRODUCER_IDS: _code_of_all,
    ApiKey.ALTER_PARTITION: _code_of_all,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _code_of_all,
    ApiKey.BROKER_HEARTBEAT: _code_of_all,
    ApiKey.BROKER_REGISTRATION: _code_of_all,
    ApiKey.CONTROLLER_REGISTRATION: _code_of_all,
    ApiKey.ALTER_CONFIGS: lambda answer: (one.error_code for one in answer.responses),
    ApiKey.CREATE_TOPICS: lambda answer: (one.error_code for one in answer.topics),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda answer: (one.error_code for one in answer.responses),
}
