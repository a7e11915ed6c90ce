"""Network client: the connection to one other node; pipelines requests and reconnects (Kafka: `NetworkClient`).

Theory of operation. The first request opens the connection, and so does the first after a loss. First the client
requests the peer's API versions; each request is then sent in the newest version that both support. Requests are
pipelined, and responses arrive in their order.

    state         event                                becomes
    idle          a request, or connect()              connecting, once the backoff is over
    connecting    connected                            authenticates with SASL, where the listener needs it
    connecting    versions received                    ready: on_ready, then the waiting requests are sent
    connecting    connection failed or timed out       idle: waiting requests are lost, the backoff doubles; on_refused
                                                       if the connection was refused; one warning per run of failures,
                                                       once they have lasted for a while
    ready         the connection broke                 idle: on_lost, all requests are lost, the backoff starts small
    ready         response timeout, invalid response   the same, and a warning
    any           close()                              closed: all requests are lost, and later ones too

A lost request may or may not have been executed. Nothing is sent twice here: the caller decides whether to retry.
Callers are called back in a later turn of the loop, as with futures; `on_ready` and its like at once.

`protocol.framing` splits bytes into frames.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from broker.runtime.alarm import Alarm
from broker.security.security_error import SecurityError
from protocol.api import APIS, ApiKey, response_class
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.framing import SMALL_READ_BYTES, FrameReader
from protocol.headers import RequestHeader, decode_response_header, encode_request_header
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.request_memory import RequestMemory
from protocol.schema import Message
from storage.disk import reason

if TYPE_CHECKING:
    import ssl
    from random import Random

    from broker.security.sasl_mechanisms import ClientMechanism
    from protocol.messages.sasl_authenticate import SaslAuthenticateResponse
    from protocol.messages.sasl_handshake import SaslHandshakeResponse

    ResponseFuture: TypeAlias = asyncio.Future[Message | None]

Address: TypeAlias = tuple[str, int]

_SIZE = Struct(">i")
_CORRELATION_IDS = 1 << 31
_JITTER = 0.2
_LOGIN_APIS = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_REAUTHENTICATION_AFTER = (0.85, 0.95)  # of the session's lifetime, as Apache Kafka's clients
_WARN_AFTER_S = 1.0  # no warning before: nodes that start together do not listen at the same moment
SOFTWARE = "barnabas"
"""The name of client software that a node sends to other nodes."""
UNKNOWN_VERSION = "unknown"  # as in Apache Kafka

_log = logging.getLogger("broker.peer")


class NetworkClientLimits(NamedTuple):
    """Timeouts, backoff in ms, and the largest response of a peer."""

    request_timeout_ms: int
    connect_timeout_ms: int = 10_000  # to connect and receive the peer's versions
    backoff_ms: int = 50
    max_backoff_ms: int = 1_000
    max_response_bytes: int = 100 << 20


class _Call:
    """One request with its future response."""

    __slots__ = ("answer", "correlation_id", "key", "min_version", "request", "timer", "version")

    def __init__(self, request: Message, min_version: int, answer: ResponseFuture) -> None:
        self.key = ApiKey(cast("int", request.API_KEY))
        self.request = request
        self.min_version = min_version
        self.answer = answer
        self.version = self.correlation_id = -1
        self.timer: asyncio.TimerHandle | None = None

    def complete(self, answer: Message | KafkaError | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.answer.done():
            return  # cancelled
        if isinstance(answer, KafkaError):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


class NetworkClient:
    """Another node at one address."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: Address,
        client_id: str,
        random: Random,
        limits: NetworkClientLimits,
        *,
        node_id: int | None = None,
        role: str = "node",
        on_ready: Callable[[], None] | None = None,
        on_lost: Callable[[], None] | None = None,
        on_refused: Callable[[], None] | None = None,
        loss_level: int = logging.INFO,
        version: str = UNKNOWN_VERSION,
        tls: Callable[[], ssl.SSLContext | None] = lambda: None,
        login: Callable[[], tuple[str, ClientMechanism] | None] = lambda: None,
    ) -> None:
        """`on_lost` is called when a ready connection breaks, unless this side closed it.

        `loss_level` is the level at which that is logged; an invalid or missing response is a warning. `version` is
        this program's, sent to the peer. `tls` returns the TLS context of a new connection, None if it has none;
        `login` the SASL mechanism that it needs, its name and the client's side, None if it needs none.
        """
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
        self._loss_level = loss_level
        self._version = version
        self._tls = tls
        self._new_login = login
        self._login: ClientMechanism | None = None  # of an authentication in progress
        self._reauthentication = Alarm(loop, self._reauthenticate)
        self.closed = False
        self._wire: _Wire | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._backoff = Alarm(loop, self._begin)
        self._connect_timeout = Alarm(loop, partial(self._failed, "no response in time"))
        self._versions: dict[int, range] | None = None
        self._correlation_id = 0
        self._waiting: deque[_Call] = deque()  # for the connection
        self._in_flight: deque[_Call] = deque()
        self._failures = 0
        self._failing_since = 0.0
        self._warned = False  # whether a warning was logged for this run of failures
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
        """Return whether requests are sent at once."""
        return self._versions is not None

    def connect(self) -> None:
        """Connect as soon as the backoff allows, without waiting for a request."""
        if self.closed or self._wire is not None or self._backoff.is_set:
            return
        if self._retry_at > self._loop.time():
            self._backoff.schedule_at(self._retry_at)
        else:
            self._begin()

    def call(self, request: Message, *, min_version: int = 0, timeout_ms: int | None = None) -> ResponseFuture:
        """Send a request; return a future of its response, or of None if it was lost or timed out.

        The future fails with KafkaError (UNSUPPORTED_VERSION) if the peer supports no version from `min_version` on, or
        none that can encode the request. The timeout, in ms, starts now, connected or not.
        """
        call = _Call(request, min_version, self._loop.create_future())
        if self.closed:
            call.complete(None)
            return call.answer
        if timeout_ms is None:
            timeout_ms = self._limits.request_timeout_ms
        call.timer = self._loop.call_later(timeout_ms / 1000, self._timed_out, call, timeout_ms)
        if self._versions is not None and self._login is None:
            self._send(call, self._versions)
        else:
            self._waiting.append(call)
            self.connect()
        return call.answer

    def close(self) -> None:
        """Close the connection for good; all requests are lost."""
        self.closed = True
        self._drop()

    def _begin(self) -> None:
        if not self._failures:
            self._failing_since, self._warned = self._loop.time(), False
        self._connect_timeout.schedule_at(self._loop.time() + self._limits.connect_timeout_ms / 1000)
        self._wire = wire = _Wire(self, self._limits.max_response_bytes)
        self._connecting = self._loop.create_task(self._connect(wire))

    async def _connect(self, wire: _Wire) -> None:
        host, port = self._address
        try:
            if (tls := self._tls()) is None:
                await self._loop.create_connection(lambda: wire, host, port)
            else:
                await self._loop.create_connection(lambda: wire, host, port, ssl=tls, server_hostname=host)
        except Exception as error:  # includes an invalid host name
            if wire is self._wire:
                self._connecting = None
                self._failed(reason(error), _WARN_AFTER_S)
                if isinstance(error, ConnectionRefusedError) and self._on_refused is not None:
                    self._on_refused()

    def connected(self) -> None:
        """Authenticate at a peer that was just connected, and request its API versions."""
        if not self._begin_login():
            self._request_versions(ApiVersionsRequest.VERSIONS[1])

    def _begin_login(self) -> bool:
        """Send SaslHandshake; return whether the connection needs SASL."""
        try:
            login = self._new_login()
        except SecurityError as error:
            self.broken(str(error), logging.WARNING)
            return True
        if login is None:
            return False
        from protocol.messages.sasl_handshake import SaslHandshakeRequest

        name, self._login = login
        self._send_login(SaslHandshakeRequest(mechanism=name), 1)
        return True

    def _send_login(self, request: Message, version: int) -> None:
        self._write(_Call(request, 0, self._loop.create_future()), version, request.encode(version))

    def _logged_in_further(self, key: ApiKey, response: Message) -> None:
        """Continue the authentication after a response; DecodeError if the peer refuses it."""
        from broker.security.sasl_mechanisms import MechanismError

        login, lifetime_ms = self._login, 0
        if login is None:
            raise DecodeError("a response to an authentication that is over")
        try:
            if key is ApiKey.SASL_HANDSHAKE:
                handshake = cast("SaslHandshakeResponse", response)
                if handshake.error_code:
                    offered = f"; enabled there: {', '.join(handshake.mechanisms)}" if handshake.mechanisms else ""
                    raise DecodeError(f"its answer to SaslHandshake is {ErrorCode(handshake.error_code).name}{offered}")
                token: bytes | None = login.first()
            else:
                last = cast("SaslAuthenticateResponse", response)
                if last.error_code:
                    raise DecodeError(f"authentication failed: {last.error_message}")
                if login.hashes_next:
                    # Thousands of hashes take milliseconds: heartbeats and requests go on meanwhile.
                    hashing = self._loop.run_in_executor(None, login.respond, bytes(last.auth_bytes))
                    hashing.add_done_callback(partial(self._hashed, login))
                    return
                token = login.respond(bytes(last.auth_bytes))
                lifetime_ms = last.session_lifetime_ms
        except MechanismError as error:
            raise DecodeError(f"authentication failed: {error}") from None
        if token is not None:
            self._send_token(token)
            return
        self._login = None
        if lifetime_ms:
            share = self._random.uniform(*_REAUTHENTICATION_AFTER)
            self._reauthentication.schedule_at(self._loop.time() + share * lifetime_ms / 1000)
        if self._versions is None:
            self._request_versions(ApiVersionsRequest.VERSIONS[1])
        else:
            self._send_waiting(self._versions)

    def _hashed(self, login: ClientMechanism, hashing: asyncio.Future[bytes | None]) -> None:
        """Send the token that a thread has computed, unless the connection is lost; never the last of a mechanism."""
        error = hashing.exception()
        if self._login is not login:
            return
        if error is not None:
            self.broken(f"authentication failed: {error}", logging.WARNING)
        else:
            self._send_token(hashing.result() or b"")

    def _send_token(self, token: bytes) -> None:
        from protocol.messages.sasl_authenticate import SaslAuthenticateRequest

        self._send_login(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateRequest.VERSIONS[1])

    def _reauthenticate(self) -> None:
        """Authenticate again (KIP-368): requests in flight are answered before, later ones wait."""
        if self._versions is not None and self._login is None:
            self._begin_login()

    def _send_waiting(self, theirs: dict[int, range]) -> None:
        while self._waiting and self._versions is theirs and self._login is None:
            self._send(self._waiting.popleft(), theirs)

    def _request_versions(self, version: int) -> None:
        request = ApiVersionsRequest(client_software_name=SOFTWARE, client_software_version=self._version)
        self._write(_Call(request, 0, self._loop.create_future()), version, request.encode(version))

    def received(self, frame: memoryview) -> None:
        """Complete the oldest request with a response; DecodeError if none is pending or it is invalid."""
        if not self._in_flight:
            raise DecodeError("a response without a pending request")
        call = self._in_flight[0]
        correlation_id, body_at = decode_response_header(call.key, call.version, frame)
        if correlation_id != call.correlation_id:
            raise DecodeError(f"response {correlation_id} instead of {call.correlation_id}")
        if call.key is ApiKey.API_VERSIONS and self._versions is None:
            self._in_flight.popleft()
            self._store_versions(call.version, frame, body_at)
            return
        response = response_class(call.key).decode(frame, call.version, body_at)
        self._in_flight.popleft()
        if call.key in _LOGIN_APIS:
            self._logged_in_further(call.key, response)
        else:
            call.complete(response)

    def _store_versions(self, version: int, frame: memoryview, body_at: int) -> None:
        """Store the peer's API versions; a peer without the request's version responds in version 0 (KIP-511)."""
        unknown = frame[body_at : body_at + 2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
        response = ApiVersionsResponse.decode(frame, 0 if unknown else version, body_at)
        theirs = {api.api_key: range(api.min_version, api.max_version + 1) for api in response.api_keys}
        if unknown:
            common = _common(ApiKey.API_VERSIONS, theirs)
            if not common or common[-1] >= version:
                raise DecodeError("no version of ApiVersions in common")
            self._request_versions(common[-1])
            return
        if response.error_code:
            raise DecodeError(f"ApiVersions failed with error {response.error_code}")
        self._connect_timeout.cancel()
        self._failures = 0
        self._versions = theirs
        if self._on_ready is not None:
            self._on_ready()
        self._send_waiting(theirs)

    def _send(self, call: _Call, theirs: dict[int, range]) -> None:
        if call.answer.done():
            call.complete(None)
            return
        common = _common(call.key, theirs, call.min_version)
        if not common:
            call.complete(self._no_common_version(call, theirs))
            return
        try:
            body = call.request.encode(common[-1])
        except KafkaError as error:
            call.complete(error)
            return
        self._write(call, common[-1], body)

    def _no_common_version(self, call: _Call, theirs: dict[int, range]) -> KafkaError:
        api = APIS[call.key]
        ours = range(max(api.min_version, call.min_version), api.max_version + 1)
        found = f"supports {_span(theirs[call.key])}" if call.key in theirs else "does not serve it"
        return KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"{api.name}: this node supports {_span(ours)}, {self} {found}"
        )

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
            call.complete(None)
        else:
            # Responses are matched by order: one missing would misalign all later ones.
            self.broken(f"no response to {APIS[call.key].name} within {timeout_ms} ms", logging.WARNING)

    def broken(self, why: str, level: int | None = None) -> None:
        """Drop the connection; all requests in flight are lost."""
        if self._versions is None:
            self._failed(why)
            return
        _log.log(self._loss_level if level is None else level, "Connection to %s lost: %s", self, why)
        self._drop()
        self._back_off()
        if self._on_lost is not None:
            self._on_lost()

    def _failed(self, why: str, warn_after_s: float = 0.0) -> None:
        """End a connection attempt; log one warning per run of failures, after `warn_after_s`."""
        warn = not self._warned and self._loop.time() - self._failing_since >= warn_after_s
        self._warned = self._warned or warn
        _log.log(logging.WARNING if warn else logging.DEBUG, "Cannot connect to %s: %s", self, why)
        self._drop()
        self._back_off()
        self._failures += 1

    def _back_off(self) -> None:
        limits = self._limits
        delay_ms = min(limits.max_backoff_ms, limits.backoff_ms * 2 ** min(self._failures, 30))
        delay_ms *= self._random.uniform(1 - _JITTER, 1 + _JITTER)
        self._retry_at = self._loop.time() + delay_ms / 1000

    def _drop(self) -> None:
        """Close the connection or end the attempt; all requests are lost."""
        self._backoff.cancel()
        self._connect_timeout.cancel()
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
        wire, self._wire = self._wire, None
        self._versions = None
        self._login = None
        self._reauthentication.cancel()
        if wire is not None:
            wire.abort()
        lost = [*self._in_flight, *self._waiting]
        self._in_flight.clear()
        self._waiting.clear()
        for call in lost:
            call.complete(None)


class _Wire(asyncio.BufferedProtocol):
    """The asyncio protocol of one connection."""

    __slots__ = ("_peer", "_reader", "_scratch", "_transport")

    def __init__(self, peer: NetworkClient, max_bytes: int) -> None:
        self._peer: NetworkClient | None = peer  # None once it has dropped this connection
        self._scratch = memoryview(bytearray(SMALL_READ_BYTES))
        self._reader = FrameReader(self._scratch, max_bytes, RequestMemory())
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Request versions, unless the attempt has timed out."""
        self._transport = cast("asyncio.Transport", transport)
        if self._peer is None:
            self._transport.abort()
        else:
            self._peer.connected()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Return the buffer for the next read."""
        return self._reader.buffer()

    def buffer_updated(self, count: int) -> None:
        """Pass on the complete responses."""
        try:
            for frame in self._reader.received(count):
                if self._peer is None:
                    return
                # Copy out of the scratch: a response may keep views of its frame, and the next read overwrites it.
                own = memoryview(bytes(frame)) if frame.obj is self._scratch.obj else frame
                self._peer.received(own)
        except DecodeError as error:
            if self._peer is not None:
                self._peer.broken(str(error), logging.WARNING)

    def connection_lost(self, error: Exception | None) -> None:
        """Notify the peer unless it dropped this connection itself."""
        if self._peer is not None:
            self._peer.broken(reason(error) if error else "closed by the peer")

    def write(self, data: bytes) -> None:
        """Send a request."""
        if self._transport is not None:
            self._transport.write(data)

    def abort(self) -> None:
        """Close the connection without notifying the peer."""
        self._peer = None
        if self._transport is not None:
            self._transport.abort()


def _common(key: int, theirs: dict[int, range], min_version: int = 0) -> range:
    """Return the versions of an API that both sides support, from `min_version` on."""
    api, known = APIS[ApiKey(key)], theirs.get(key, range(0))
    return range(max(api.min_version, known.start, min_version), min(api.max_version + 1, known.stop))


def _span(versions: range) -> str:
    return f"{versions[0]} to {versions[-1]}" if versions else "none"
