"""TLS between a socket and its connection protocol, in memory (`ssl.MemoryBIO`).

    socket transport  <- encrypted bytes ->  TlsTransport  <- plain bytes ->  ConnectionProtocol

To the socket it is a protocol, to the connection protocol a transport. Theory of operation:

- The connection counts from its acceptance on, not from the end of its handshake as with the loop's own TLS: connection
  limits and timeouts apply to clients that never begin or finish a handshake. Those hold no TLS state before their
  first byte, and are closed after `HANDSHAKE_S`.
- Bytes are encrypted when they are written, and handed to the socket transport at once. So there is one queue, that of
  the socket transport, and its backpressure is the connection protocol's.
- While reading is paused, received bytes stay encrypted. Reading resumes in a turn of its own.
- OpenSSL gets and returns bytes in slices: a `ssl.MemoryBIO` keeps the memory of the most bytes that were ever in it.
- The client's principal is known before its first request is handled.
- A client that requests a renegotiation is refused with an alert, and its connection closed, as in Kafka's
  `SslTransportLayer`.

Files are read and encrypted here in the process: sendfile is for plain connections only (`send_queue`).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from broker.runtime.log_output import quoted
from broker.security.distinguished_name import DamagedCertificateError
from broker.security.ssl_principal_mapper import NoMatchingRuleError
from protocol.plural import count_of

if TYPE_CHECKING:
    from broker.network.connection_protocol import ConnectionProtocol, Listener
    from broker.security.listener_tls import ListenerTls

HANDSHAKE_S = 30.0
"""The longest time from the acceptance of a connection to the end of its handshake."""

_SLICE_BYTES = 64 * 1024
"""Half of it would take 20 KB less for each connection, and 3 % more CPU time of large fetches."""
_RECORD_BYTES = 5 + 16 * 1024 + 256
"""The largest record of TLS 1.3; those of TLS 1.2 that are larger are rare."""

_STARVED_READ_BYTES = 16 * 1024

_NOTHING = memoryview(b"")

_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE")

_REFUSED_BY_CLIENT = {
    "TLSV1_ALERT_UNKNOWN_CA": "unknown authority",
    "SSLV3_ALERT_BAD_CERTIFICATE": "bad certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "for another reason, such as its host name",
}
_NO_CERTIFICATE = "PEER_DID_NOT_RETURN_A_CERTIFICATE"

_log = logging.getLogger("broker.channel")
_audit = logging.getLogger("broker.audit")


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """One encrypted connection of a client."""

    __slots__ = (
        "_client",
        "_closing",
        "_established",
        "_incoming",
        "_listener",
        "_outgoing",
        "_paused",
        "_received",
        "_session",
        "_socket",
        "_timeout",
        "_tls",
    )

    _socket: asyncio.Transport
    _incoming: ssl.MemoryBIO
    _outgoing: ssl.MemoryBIO

    def __init__(self, listener: Listener, tls: ListenerTls, client: ConnectionProtocol) -> None:
        """Encrypt the connection of `client`."""
        super().__init__()
        self._listener = listener
        self._tls = tls
        self._client = client
        self._session: ssl.SSLObject | None = None
        self._received = _NOTHING  # encrypted bytes that OpenSSL did not get yet
        self._timeout: asyncio.TimerHandle | None = None
        self._established = False
        self._paused = False
        self._closing = False

    # The side of the socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the connection; nothing is read from it before the handshake is done."""
        self._socket = cast("asyncio.Transport", transport)
        self._timeout = self._listener.server.loop.call_later(HANDSHAKE_S, self._timed_out)
        self._client.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection."""
        self._closing = True
        self._stop_timeout()
        self._client.connection_lost(exc)
        if self._session is not None:
            # Free OpenSSL's memory now: this and the protocol refer to each other, and wait for the garbage collector.
            self._session = None
            self._received = _NOTHING
            del self._incoming, self._outgoing

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return the buffer for encrypted bytes, which is shared by all connections.

        A small part of it while request memory is full: what a client that waits for memory has sent is kept.
        """
        scratch = self._tls.scratch
        return scratch[:_STARVED_READ_BYTES] if self._client.reader.memory.full else scratch

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt what arrived, and pass it on unless reading is paused."""
        if self._closing:
            return
        if not self._received:
            self._received = self._tls.scratch[:nbytes]
        elif nbytes:
            self._received = memoryview(b"".join((self._received, self._tls.scratch[:nbytes])))
        try:
            if self._session is None:
                self._begin()
            # A delayed connection is paused before its handshake; uvloop reads from it once.
            if self._established or (not self._paused and self._shake_hands()):
                self._pass_on()
        except ssl.SSLError as error:
            self._fail(_description(error), is_refusal=_is_refusal(error))
        except (NoMatchingRuleError, DamagedCertificateError) as error:
            self._fail(str(error), is_refusal=True)
        if not self._received or self._closing:
            self._received = _NOTHING
        elif self._received.obj is self._tls.scratch.obj:
            self._received = memoryview(bytes(self._received))

    def pause_writing(self) -> None:
        """Pass on that the socket is full."""
        self._client.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the socket has room again."""
        self._client.resume_writing()

    # The side of the connection protocol.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the socket's information, or `sslcontext`."""
        return self._tls.context if name == "sslcontext" else self._socket.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits of the socket's transport, in encrypted bytes."""
        self._socket.set_write_buffer_limits(high, low)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Encrypt and send all of them."""
        session = self._session
        if session is None or self._closing:
            return
        encrypt, take = session.write, self._outgoing.read
        encrypted: list[bytes] = []
        try:
            for data in list_of_data:
                rest = memoryview(data)
                while rest:
                    rest = rest[encrypt(rest[:_SLICE_BYTES]) :]
                    encrypted.append(take())
        except ssl.SSLError as error:
            self._send(encrypted)
            self._fail(_description(error))
            return
        self._send(encrypted)

    def is_closing(self) -> bool:
        """Return whether the connection is closed or about to be."""
        return self._closing or self._socket.is_closing()

    def pause_reading(self) -> None:
        """Stop decrypting, and reading from the socket."""
        self._paused = True
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Continue, with what was received before, in the next turn of the loop."""
        self._paused = False
        self._socket.resume_reading()
        if self._session is not None:
            self._listener.server.loop.call_soon(self.buffer_updated, 0)

    def close(self) -> None:
        """End the TLS connection, send what is buffered, and close."""
        if self._closing:
            return
        self._closing = True
        if self._session is not None and self._established:
            with suppress(ssl.SSLError):  # the peer's part of the end is not awaited
                self._session.unwrap()
            self._flush()
        self._socket.close()

    def abort(self) -> None:
        """Close at once."""
        self._closing = True
        self._socket.abort()

    def _begin(self) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = self._tls.context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def _shake_hands(self) -> bool:
        """Continue the handshake; return whether it is done."""
        session = cast("ssl.SSLObject", self._session)
        while not self._established:
            if not self._feed():
                return False
            with suppress(ssl.SSLWantReadError):
                try:
                    session.do_handshake()
                finally:
                    self._flush()
                self._established = True
        self._stop_timeout()
        self._client.connection.principal = self._tls.principal_of(session)
        return True

    def _feed(self) -> bool:
        """Give OpenSSL a slice of what was received; return whether there was any."""
        received = self._received
        if not received:
            return False
        self._incoming.write(received[:_SLICE_BYTES])
        self._received = received[_SLICE_BYTES:]
        return True

    def _pass_on(self) -> None:
        """Give decrypted bytes to the client's protocol until there are no more, or it pauses."""
        client, session = self._client, cast("ssl.SSLObject", self._session)
        incoming, outgoing = self._incoming, self._outgoing
        count = -1  # bytes of the last read; 0: the client ended the TLS connection; -1: there are no more bytes
        more = True
        while more and not self._paused and not self._closing:
            buffer = client.get_buffer(-1)
            filled = 0
            while more and filled < len(buffer) and not outgoing.pending:
                if incoming.pending < _RECORD_BYTES and self._received:
                    self._feed()
                try:
                    # Into a buffer it returns a number, which its stub does not know.
                    count = cast("int", session.read(len(buffer) - filled, cast("bytearray", buffer[filled:])))
                    filled += count
                    more = count > 0
                except ssl.SSLWantReadError:
                    more = self._feed()
            if outgoing.pending:
                # In TLS 1.2 the alert by which OpenSSL refuses a renegotiation; in TLS 1.3 a requested KeyUpdate.
                if session.version() == "TLSv1.2":
                    self._fail("the client requests a renegotiation")
                    return
                self._flush()
            if filled:
                client.buffer_updated(filled)
            if count == 0:
                self.close()

    def _flush(self) -> None:
        """Hand encrypted bytes to the socket."""
        if self._outgoing.pending and not self._socket.is_closing():
            self._socket.write(self._outgoing.read())

    def _send(self, encrypted: list[bytes]) -> None:
        """Hand encrypted bytes to the socket, in one call."""
        if not encrypted or self._socket.is_closing():
            return
        if len(encrypted) == 1:
            self._socket.write(encrypted[0])
            return
        self._socket.writelines(encrypted)
        # Makes `writelines` pause if it buffers; Python 3.12.0 forgets to (CVE-2024-12254).
        self._socket.set_write_buffer_limits(0)

    def _timed_out(self) -> None:
        self._timeout = None
        if not self._closing:
            self._closing = True
            self._warn("no TLS handshake in time")
            self._socket.abort()

    def _stop_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _fail(self, why: str, *, is_refusal: bool = False) -> None:
        """Send the alert that names the failure, log it, and close; `is_refusal`: the certificate is refused."""
        if self._closing:
            return
        self._closing = True
        self._stop_timeout()
        self._warn(why, is_refusal=is_refusal)
        self._flush()
        self._socket.close()

    def _warn(self, why: str, *, is_refusal: bool = False) -> None:
        """Log why the connection is closed; the same at most once in 10 s.

        A refused certificate is a line of the audit log. OpenSSL does not return one that it could not verify.
        """
        host, listener, server = self._client.connection.client_host, self._listener.name, self._listener.server
        if times := server.close_warnings.add(f"{host} {listener} {why}", server.loop.time()):
            more = f" ({count_of(times - 1, 'other')} since the last such line)" if times > 1 else ""
            if is_refusal:
                _audit.warning(
                    "Refused certificate: host=%s listener=%s reason=%s%s", quoted(host), listener, quoted(why), more
                )
                return
            _log.warning("Closing the connection from %s on %s: %s%s", host, listener, why, more)


def _is_refusal(error: ssl.SSLError) -> bool:
    """Return whether the client's certificate, or that it sent none, ended the handshake."""
    return isinstance(error, ssl.SSLCertVerificationError) or error.reason == _NO_CERTIFICATE


def _description(error: ssl.SSLError) -> str:
    """Return why TLS failed, and what the client may have to change."""
    reason = error.reason or str(error)
    if reason in _NO_TLS:
        return "the client does not use TLS; does it have security.protocol=SSL or SASL_SSL?"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if reason == _NO_CERTIFICATE:
        return "it sent no certificate, and ssl.client.auth=required"
    if reason in _REFUSED_BY_CLIENT:
        return f"the client does not trust the certificate of this broker ({_REFUSED_BY_CLIENT[reason]})"
    return f"TLS failed: {reason.lower().replace('_', ' ')}"
