"""Requests to the active controller: a call in this process if this node leads the quorum, else a connection.

The broker sends its own requests with `call` (registration, heartbeats, AlterPartition, AllocateProducerIds; Kafka:
`NodeToControllerChannelManager`), and those of its clients with `forward`, in an Envelope with the client's principal
and address (KIP-590; Kafka: `ForwardingManager`). Both retry, with the leader at the time, until their timeout. A
request whose connection broke may have been carried out, and is sent again, as in Kafka.

A request has a connection of its own while it is in flight, since responses come in the order of the requests: a
heartbeat must not wait behind a CreateTopics. At most `MAX_FORWARDED` requests of clients, or caused by clients, are
in flight at a time, so that clients cannot make a broker open any number of connections.

The leader is known from the raft driver; the receiver of an Envelope is `broker.handlers.envelope`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from controller.raft.messages import NO_NODE
from protocol.api import ApiKey, response_class
from protocol.errors import ErrorCode, KafkaError
from protocol.headers import RequestHeader, decode_response_header, encode_request_header
from protocol.primitives import Part, read_parts
from protocol.records.principal import ForwardedPrincipal, encode_principal
from protocol.schema import Message

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.network.network_client import NetworkClient

T = TypeVar("T")

NOT_LEADER_ERRORS = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER})
"""The error codes of a controller that no longer leads, for forwarded APIs: the request is retried."""

MAX_FORWARDED = 16
"""Maximum number of requests for clients that are in flight to another node."""

_log = logging.getLogger("broker.controller")

_OF_THE_ENVELOPE = (ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
"""Error codes that are about this broker, and would mislead its client."""

_RETRY_S = 0.05
_SIZE_BYTES = 4
_TIMEOUT_S = 30.0


class ControllerLeadership(Protocol):
    """The part of the raft driver that the channel uses."""

    @property
    def leads(self) -> bool:
        """Return whether this node is the active controller."""

    @property
    def leader_id(self) -> int:
        """Return the id of the quorum's leader; -1 if unknown."""

    @property
    def epoch(self) -> int:
        """Return the epoch of the quorum."""

    @property
    def is_in_other_cluster(self) -> bool:
        """Return whether a majority of the voters belongs to another cluster."""

    def leader_change(self) -> asyncio.Future[None]:
        """Return a future that is done when the leader or its epoch changes."""


class ControllerChannel:
    """The requests of this node and of its clients to the active controller."""

    def __init__(
        self,
        quorum: ControllerLeadership,
        connect: Callable[[int, Callable[[], None]], NetworkClient],
        handle_locally: Callable[[Message], Awaitable[Message]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`connect` returns a connection to a controller, and calls its second argument when it opens or breaks.

        `handle_locally` handles a request while this node leads.
        """
        self._quorum = quorum
        self._connect = connect
        self._handle_locally = handle_locally
        self._loop = loop
        self._clients: dict[NetworkClient, None] = {}  # in order of creation
        self._closing: asyncio.Future[None] = loop.create_future()
        self._idle: list[NetworkClient] = []
        self._forward_slots = asyncio.Semaphore(MAX_FORWARDED)
        self._connected_to = NO_NODE
        self._listeners: list[Callable[[], None]] = []

    def on_connection_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever a connection to the controller opens or breaks."""
        self._listeners.append(callback)

    def _connection_changed(self) -> None:
        for callback in self._listeners:
            callback()

    def close(self) -> None:
        """Close all connections. Requests in flight fail with REQUEST_TIMED_OUT, and no more are sent."""
        if not self._closing.done():
            self._closing.set_result(None)
        self._drop_connections()

    def _drop_connections(self) -> None:
        clients, self._clients, self._idle = self._clients, {}, []
        for client in clients:
            client.close()

    async def call(self, request: Message, timeout_s: float, *, for_client: bool = False) -> Any:
        """Return the controller's response to a request of this node; `for_client` if a client caused it.

        KafkaError REQUEST_TIMED_OUT without a response in time, INCONSISTENT_CLUSTER_ID if the controllers belong to
        another cluster.
        """

        async def remote(client: NetworkClient) -> Message | None:
            response = await client.call(request)
            return None if response is None or set(codes(response)) == {ErrorCode.NOT_CONTROLLER} else response

        codes = _ERROR_CODES[ApiKey(cast("int", request.API_KEY))]
        slot = self._forward_slots if for_client else nullcontext()
        return await self._send_with_retries(lambda: self._handle_locally(request), remote, timeout_s, slot)

    def send(self, request: Message) -> asyncio.Future[Message | None]:
        """Return a future of the controller's response; its result is None if there is no response within 30 s."""
        return self._loop.create_task(self._call_or_none(request))

    async def _call_or_none(self, request: Message) -> Message | None:
        try:
            found: Message = await self.call(request, _TIMEOUT_S)
        except KafkaError as error:
            if error.code is not ErrorCode.REQUEST_TIMED_OUT:
                _log.warning("Request to the controller failed: %s", error)
            return None
        return found

    async def forward(
        self, context: RequestContext, request: Message, local: Callable[[], Awaitable[Any]], timeout_s: float
    ) -> Any:
        """Return the controller's response to a client: that of `local` if this node leads, else the leader's frame."""
        from protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse

        header = RequestHeader(ApiKey(context.api_key), context.api_version, context.correlation_id, context.client_id)
        envelope = EnvelopeRequest(
            request_data=encode_request_header(header) + request.encode(context.api_version),
            request_principal=encode_principal(ForwardedPrincipal(context.principal, context.token_authenticated)),
            client_host_address=ip_address(context.client_host).packed,
        )

        async def remote(client: NetworkClient) -> list[Part] | None:
            response = await client.call(envelope)
            if not isinstance(response, EnvelopeResponse) or response.error_code in NOT_LEADER_ERRORS:
                return None
            if response.error_code or response.response_data is None:
                code = ErrorCode(response.error_code)
                if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                    _log.warning("The controller does not authorize this broker to forward requests (CLUSTER_ACTION)")
                if code in _OF_THE_ENVELOPE:
                    code = ErrorCode.UNKNOWN_SERVER_ERROR
                raise KafkaError(code, "The controller rejected the forwarded request.")
            return [len(response.response_data).to_bytes(4, "big") + response.response_data]

        return await self._send_with_retries(local, remote, timeout_s, self._forward_slots)

    async def call_for(
        self, context: RequestContext, request: Message, local: Callable[[], Awaitable[Any]], timeout_s: float
    ) -> Any:
        """Return the controller's response, as a message, to a request on behalf of a client: as `forward`.

        The request need not be the client's own; `context` has its API and version.
        """
        answer = await self.forward(context, request, local, timeout_s)
        if not isinstance(answer, list):
            return answer
        key, version, frame = ApiKey(context.api_key), context.api_version, read_parts(answer)
        _, body_at = decode_response_header(key, version, frame[_SIZE_BYTES:])
        return response_class(key).decode(frame, version, _SIZE_BYTES + body_at)

    async def _send_with_retries(
        self,
        local: Callable[[], Awaitable[Any]],
        remote: Callable[[NetworkClient], Awaitable[T | None]],
        timeout_s: float,
        slot: AbstractAsyncContextManager[object],
    ) -> Any:
        try:
            async with asyncio.timeout(timeout_s):
                while not self._closing.done():
                    changed = self._quorum.leader_change()
                    response: Any = None
                    if self._quorum.leads:
                        try:
                            response = await local()
                        except KafkaError as error:
                            if error.code not in NOT_LEADER_ERRORS:
                                raise
                    elif self._quorum.leader_id >= 0:
                        async with slot:
                            response = await self._exchange(remote)
                    elif self._quorum.is_in_other_cluster:
                        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, "The controllers are of another cluster.")
                    if response is not None:
                        return response
                    either = (changed, self._closing)
                    await asyncio.wait(either, timeout=_RETRY_S, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The controller did not answer in time.") from None
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "This node is stopping.")

    async def _exchange(self, remote: Callable[[NetworkClient], Awaitable[T | None]]) -> T | None:
        """Send a request to the leader on an unused connection. None without a response, or if no other node leads."""
        leader = self._quorum.leader_id
        if leader < 0 or self._quorum.leads or self._closing.done():
            return None
        if leader != self._connected_to:
            self._drop_connections()
            self._connected_to = leader
        client = self._idle.pop() if self._idle else self._connect(leader, self._connection_changed)
        self._clients[client] = None
        reusable = False
        try:
            pending = asyncio.ensure_future(remote(client))
            await self._while_it_leads(leader, self._quorum.epoch, pending)
            if pending.done():
                reusable = client in self._clients
                return pending.result()
            pending.cancel()
            return None
        finally:
            if reusable:
                self._idle.append(client)
            else:  # a request in flight would delay the next one on this connection
                self._clients.pop(client, None)
                client.close()

    async def _while_it_leads(self, leader: int, epoch: int, pending: asyncio.Future[Any]) -> None:
        """Wait for the response of `leader`, at most until the quorum has a leader in another epoch.

        The old leader may hang or be unreachable. A node that lost power and leads again in a later epoch does not
        respond either: the connection stays half-open, because this side has nothing more to send.
        """
        quorum = self._quorum
        try:
            while not pending.done() and (
                quorum.leader_id == NO_NODE or (quorum.leader_id, quorum.epoch) == (leader, epoch)
            ):
                waiting: set[asyncio.Future[Any]] = {pending, quorum.leader_change()}
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            pending.cancel()
            raise


def _top_level_error(response: Any) -> Iterable[int]:
    return (response.error_code,)


# The error codes in the responses to this node's own requests.
_ERROR_CODES: Mapping[ApiKey, Callable[[Any], Iterable[int]]] = {
    ApiKey.ALLOCATE_PRODUCER_IDS: _top_level_error,
    ApiKey.ALTER_PARTITION: _top_level_error,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _top_level_error,
    ApiKey.BROKER_HEARTBEAT: _top_level_error,
    ApiKey.BROKER_REGISTRATION: _top_level_error,
    ApiKey.CONTROLLER_REGISTRATION: _top_level_error,
    ApiKey.CREATE_TOPICS: lambda response: (one.error_code for one in response.topics),
    ApiKey.DELETE_TOPICS: lambda response: (one.error_code for one in response.responses),
}
