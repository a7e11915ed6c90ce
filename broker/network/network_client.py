"""A connection to another node: requests out, answers in, opened again when it broke.

Theory of operation. The first request opens the connection, and so does the first after it was lost. Before anything
else the peer is asked for its versions; a request then leaves in the newest version that both sides speak. Requests
follow each other without waiting, and are answered in their order.

    state         event                        becomes
    idle          a request, or connect()      connecting, once the back-off is over
    connecting    versions known               ready: on_ready, then the requests that waited leave
    connecting    no connection, or too late   idle: the requests that waited are lost; the back-off doubles;
                                               on_refused, if the node's system says that nobody listens there;
                                               one line in the log when that has gone on for a while
    ready         the connection broke         idle: on_lost, all requests are lost; the back-off starts small
    ready         no answer in time, garbage   likewise, and one line in the log
    any           close()                      closed: all requests are lost, and those to come

A request that is lost may or may not have been carried out. What to do about that is for the caller: nothing is sent
twice here. Callers are called back in a turn of their own, as futures do; `on_ready` and its like at once.

Cutting bytes into frames is `protocol.framing`'s.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from barnabas import __version__
from protocol.api import APIS, ApiKey, response_class
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.framing import SMALL_READ_BYTES, FrameReader
from protocol.headers import RequestHeader, decode_response_header, encode_request_header
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.request_memory import RequestMemory
from protocol.schema import Message
from storage.disk import reason

if TYPE_CHECKING:
    from random import Random

    Answer: TypeAlias = asyncio.Future[Message | None]

Address: TypeAlias = tuple[str, int]

_SIZE = Struct(">i")
_CORRELATION_IDS = 1 << 31
_JITTER = 0.2
_PATIENCE_S = 1.0  # nodes that start together do not listen at the same moment
_SOFTWARE = "barnabas"

_log = logging.getLogger("broker.peer")


class PeerLimits(NamedTuple):
    """How long to wait for a peer, and how much to take from it."""

    request_timeout_ms: int
    connect_timeout_ms: int = 10_000  # for the connection and the peer's versions together
    backoff_ms: int = 50
    max_backoff_ms: int = 1_000
    max_response_bytes: int = 100 << 20


class _Call:
    """One request that somebody waits for."""

    __slots__ = ("answer", "correlation_id", "key", "min_version", "request", "timer", "version")

    def __init__(self, request: Message, min_version: int, answer: Answer) -> None:
        self.key = ApiKey(cast("int", request.API_KEY))
        self.request = request
        self.min_version = min_version
        self.answer = answer
        self.version = self.correlation_id = -1
        self.timer: asyncio.TimerHandle | None = None

    def settle(self, answer: Message | KafkaError | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.answer.done():
            return  # cancelled
        if isinstance(answer, KafkaError):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


class Peer:
    """Another node, at one address."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: Address,
        client_id: str,
        random: Random,
        limits: PeerLimits,
        *,
        node_id: int | None = None,
        role: str = "node",
        on_ready: Callable[[], None] | None = None,
        on_lost: Callable[[], None] | None = None,
        on_refused: Callable[[], None] | None = None,
    ) -> None:
        """`on_lost` is called when a connection breaks that was ready, unless this side gave it up."""
        self._loop = loop
        self._address = address
        self._node_id = node_id
        self._role = role
        self._client_id = client_id
        self._random = random
        self._limits = limits
        self._on_ready = on_ready
        self._on_lost = on_lost
        self._on_refused = on_refused
        self._closed = False
        self._wire: _Wire | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None  # ends the back-off, or gives up connecting
        self._versions: dict[int, range] | None = None
        self._correlation_id = 0
        self._waiting: deque[_Call] = deque()  # for the connection
        self._in_flight: deque[_Call] = deque()
        self._failures = 0
        self._failing_since = 0.0
        self._told = False  # of these failures
        self._retry_at = 0.0

    def __str__(self) -> str:
        host, port = self._address
        return f"{host}:{port}" if self._node_id is None else f"{self._role} {self._node_id} at {host}:{port}"

    @property
    def address(self) -> Address:
        """Return the host and port where the node is; setting another drops the connection to the old one."""
        return self._address

    @address.setter
    def address(self, address: Address) -> None:
        if address != self._address:
            self._drop()
            self._address = address
            self._failures, self._retry_at = 0, 0.0

    @property
    def ready(self) -> bool:
        """Say whether requests leave at once."""
        return self._versions is not None

    def connect(self) -> None:
        """Open the connection as soon as the back-off allows, without waiting for a request."""
        if self._closed or self._wire is not None or self._timer is not None:
            return
        delay_s = self._retry_at - self._loop.time()
        if delay_s > 0:
            self._timer = self._loop.call_later(delay_s, self._begin)
        else:
            self._begin()

    def call(self, request: Message, *, min_version: int = 0, timeout_ms: int | None = None) -> Answer:
        """Send a request; return a future of its response, or of None if it was lost or not answered in time.

        The future fails with KafkaError (UNSUPPORTED_VERSION) if the peer speaks no version from `min_version` on, or
        none that can carry the request. The time-out in ms begins now, whether or not there is a connection.
        """
        call = _Call(request, min_version, self._loop.create_future())
        if self._closed:
            call.settle(None)
            return call.answer
        if timeout_ms is None:
            timeout_ms = self._limits.request_timeout_ms
        call.timer = self._loop.call_later(timeout_ms / 1000, self._timed_out, call, timeout_ms)
        if self._versions is not None:
            self._send(call, self._versions)
        else:
            self._waiting.append(call)
            self.connect()
        return call.answer

    def close(self) -> None:
        """Close the connection for good; every request is lost."""
        self._closed = True
        self._drop()

    def _begin(self) -> None:
        if not self._failures:
            self._failing_since, self._told = self._loop.time(), False
        self._timer = self._loop.call_later(self._limits.connect_timeout_ms / 1000, self._failed, "no answer in time")
        self._wire = wire = _Wire(self, self._limits.max_response_bytes)
        self._connecting = self._loop.create_task(self._connect(wire))

    async def _connect(self, wire: _Wire) -> None:
        host, port = self._address
        try:
            await self._loop.create_connection(lambda: wire, host, port)
        except Exception as error:  # also a name that is none
            if wire is self._wire:
                self._connecting = None
                self._failed(reason(error), _PATIENCE_S)
                if isinstance(error, ConnectionRefusedError) and self._on_refused is not None:
                    self._on_refused()

    def made(self) -> None:
        """Ask a peer that was reached for its versions."""
        self._ask_versions(ApiVersionsRequest.VERSIONS[1])

    def _ask_versions(self, version: int) -> None:
        request = ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version=__version__)
        self._write(_Call(request, 0, self._loop.create_future()), version, request.encode(version))

    def received(self, frame: memoryview) -> None:
        """Give a response to whom it is for; DecodeError if it is for nobody or damaged."""
        if not self._in_flight:
            raise DecodeError("a response that nobody waits for")
        call = self._in_flight[0]
        correlation_id, body_at = decode_response_header(call.key, call.version, frame)
        if correlation_id != call.correlation_id:
            raise DecodeError(f"response {correlation_id} instead of {call.correlation_id}")
        if self._versions is None:
            self._in_flight.popleft()
            self._take_versions(call.version, frame, body_at)
            return
        response = response_class(call.key).decode(frame, call.version, body_at)
        self._in_flight.popleft()
        call.settle(response)

    def _take_versions(self, version: int, frame: memoryview, body_at: int) -> None:
        """Note what the peer speaks; one that does not know the version asked in answers in version 0 (KIP-511)."""
        unknown = frame[body_at : body_at + 2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
        response = ApiVersionsResponse.decode(frame, 0 if unknown else version, body_at)
        theirs = {api.api_key: range(api.min_version, api.max_version + 1) for api in response.api_keys}
        if unknown:
            common = _common(ApiKey.API_VERSIONS, theirs)
            if not common or common[-1] >= version:
                raise DecodeError("no version of ApiVersions in common")
            self._ask_versions(common[-1])
            return
        if response.error_code:
            raise DecodeError(f"ApiVersions failed with error {response.error_code}")
        self._cancel_timer()
        self._failures = 0
        self._versions = theirs
        if self._on_ready is not None:
            self._on_ready()
        while self._waiting and self._versions is not None:
            self._send(self._waiting.popleft(), self._versions)

    def _send(self, call: _Call, theirs: dict[int, range]) -> None:
        if call.answer.done():
            call.settle(None)
            return
        common = _common(call.key, theirs, call.min_version)
        if not common:
            call.settle(self._no_common_version(call, theirs))
            return
        try:
            body = call.request.encode(common[-1])
        except KafkaError as error:
            call.settle(error)
            return
        self._write(call, common[-1], body)

    def _no_common_version(self, call: _Call, theirs: dict[int, range]) -> KafkaError:
        api = APIS[call.key]
        ours = range(max(api.min_version, call.min_version), api.max_version + 1)
        found = f"speaks {_span(theirs[call.key])}" if call.key in theirs else "does not serve it"
        return KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{api.name}: this node speaks {_span(ours)}, {self} {found}")

    def _write(self, call: _Call, version: int, body: bytes) -> None:
        call.version, call.correlation_id = version, self._correlation_id
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_IDS
        header = encode_request_header(RequestHeader(call.key, version, call.correlation_id, self._client_id))
        self._in_flight.append(call)
        if self._wire is not None:
            self._wire.write(_SIZE.pack(len(header) + len(body)) + header + body)

    def _timed_out(self, call: _Call, timeout_ms: int) -> None:
        if call.version < 0:
            self._waiting.remove(call)
            call.settle(None)
        else:
            # What comes next on this connection would be taken for the answer to another request.
            self.broken(f"no answer to {APIS[call.key].name} within {timeout_ms} ms", logging.WARNING)

    def broken(self, why: str, level: int) -> None:
        """Give up the connection, and everything that is in flight."""
        if self._versions is None:
            self._failed(why)
            return
        _log.log(level, "Lost the connection to %s: %s", self, why)
        self._drop()
        self._back_off()
        if self._on_lost is not None:
            self._on_lost()

    def _failed(self, why: str, patience_s: float = 0.0) -> None:
        """Give up an attempt to connect; of those in a row it is said of one that ends after the patience."""
        tell = not self._told and self._loop.time() - self._failing_since >= patience_s
        self._told = self._told or tell
        _log.log(logging.WARNING if tell else logging.DEBUG, "Cannot talk to %s: %s", self, why)
        self._drop()
        self._back_off()
        self._failures += 1

    def _back_off(self) -> None:
        limits = self._limits
        delay_ms = min(limits.max_backoff_ms, limits.backoff_ms * 2 ** min(self._failures, 30))
        delay_ms *= self._random.uniform(1 - _JITTER, 1 + _JITTER)
        self._retry_at = self._loop.time() + delay_ms / 1000

    def _drop(self) -> None:
        """Have no connection, nor one in the making; every request is lost."""
        self._cancel_timer()
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
        wire, self._wire = self._wire, None
        self._versions = None
        if wire is not None:
            wire.abort()
        lost = [*self._in_flight, *self._waiting]
        self._in_flight.clear()
        self._waiting.clear()
        for call in lost:
            call.settle(None)

    def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


class _Wire(asyncio.BufferedProtocol):
    """The protocol object of one connection."""

    __slots__ = ("_peer", "_reader", "_scratch", "_transport")

    def __init__(self, peer: Peer, max_bytes: int) -> None:
        self._peer: Peer | None = peer  # until it has given this connection up
        self._scratch = memoryview(bytearray(SMALL_READ_BYTES))
        self._reader = FrameReader(self._scratch, max_bytes, RequestMemory())
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless that took too long."""
        self._transport = cast("asyncio.Transport", transport)
        if self._peer is None:
            self._transport.abort()
        else:
            self._peer.made()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._reader.buffer()

    def buffer_updated(self, count: int) -> None:
        """Hand over the responses that have come whole."""
        try:
            for frame in self._reader.received(count):
                if self._peer is None:
                    return
                # A response may keep views of its frame, and the scratch is overwritten by what comes next.
                own = memoryview(bytes(frame)) if frame.obj is self._scratch.obj else frame
                self._peer.received(own)
        except DecodeError as error:
            if self._peer is not None:
                self._peer.broken(str(error), logging.WARNING)

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the peer, if it was not the one who gave up."""
        if self._peer is not None:
            why = reason(error) if error else "the other side closed it"
            self._peer.broken(why, logging.INFO)

    def write(self, data: bytes) -> None:
        """Send a request."""
        if self._transport is not None:
            self._transport.write(data)

    def abort(self) -> None:
        """Have nothing more to do with the peer."""
        self._peer = None
        if self._transport is not None:
            self._transport.abort()


def _common(key: int, theirs: dict[int, range], min_version: int = 0) -> range:
    """Return the versions of an API that both sides speak, from `min_version` on."""
    api, known = APIS[ApiKey(key)], theirs.get(key, range(0))
    return range(max(api.min_version, known.start, min_version), min(api.max_version + 1, known.stop))


def _span(versions: range) -> str:
    return f"{versions[0]} to {versions[-1]}" if versions else "none"
