"""The states of an encrypted connection, in memory: no socket, and a loop that the test is."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.network.connection import Connection
from broker.network.tls_transport import HANDSHAKE_S, TlsTransport
from broker.runtime.rate_limited_log import RateLimitedCounter
from tests.certificates import Certificates
from tests.unit.broker.network.test_tls_transport import client_context, listener_tls


class Timer:
    """A call that the loop is to make later."""

    def __init__(self, delay_s: float, call: Callable[[], None]) -> None:
        self.delay_s = delay_s
        self.fire = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """Records what it is to call."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []
        self.soon: list[tuple[Any, ...]] = []

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(delay_s, call))
        return self.timers[-1]

    def call_soon(self, *call: Any) -> None:
        self.soon.append(call)

    def time(self) -> float:
        return 0.0


class Socket:
    """The socket's transport."""

    def __init__(self) -> None:
        self.sent = b""
        self.calls: list[Any] = []

    def write(self, data: bytes) -> None:
        assert data
        assert not self.is_closing()
        self.sent += data

    def writelines(self, list_of_data: list[bytes]) -> None:
        for data in list_of_data:
            self.write(data)

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def pause_reading(self) -> None:
        self.calls.append("pause_reading")

    def resume_reading(self) -> None:
        self.calls.append("resume_reading")

    def set_write_buffer_limits(self, high: int | None, low: int | None = None) -> None:
        self.calls.append((high, low))

    def get_extra_info(self, name: str, default: Any) -> Any:
        return {"peername": "address"}.get(name, default)

    def is_closing(self) -> bool:
        return "close" in self.calls or "abort" in self.calls


class Client:
    """The connection protocol."""

    def __init__(self) -> None:
        self.connection = Connection(1, "SSL", "127.0.0.1")
        self.received: list[bytes] = []
        self.calls: list[Any] = []
        self.may_read = True
        self.reader = SimpleNamespace(memory=SimpleNamespace(full=False))
        self.on_bytes: Callable[[], None] = lambda: None
        self._buffer = memoryview(bytearray(8))

    def connection_made(self, transport: object) -> None:
        self.calls.append("made")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append(("lost", exc))

    def pause_writing(self) -> None:
        self.calls.append("pause_writing")

    def resume_writing(self) -> None:
        self.calls.append("resume_writing")

    def get_buffer(self, sizehint: int) -> memoryview:
        assert sizehint == -1
        assert self.may_read
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        assert count
        self.received.append(bytes(self._buffer[:count]))
        self.on_bytes()


class Encrypted:
    """A connection and its peer."""

    def __init__(self, certificates: Certificates) -> None:
        self.loop, self.socket, self.client = Loop(), Socket(), Client()
        server = SimpleNamespace(loop=self.loop, close_warnings=RateLimitedCounter(10.0))
        listener: Any = SimpleNamespace(name="SSL", server=server)
        client: Any = self.client
        self.transport = TlsTransport(listener, listener_tls(certificates), client)
        self.incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.peer = client_context(certificates).wrap_bio(self.incoming, self._outgoing, server_hostname="127.0.0.1")
        socket: Any = self.socket
        self.transport.connection_made(socket)

    def give(self, data: bytes) -> None:
        """Let the socket receive bytes."""
        self.transport.get_buffer(-1)[: len(data)] = data
        self.transport.buffer_updated(len(data))

    def exchange(self) -> None:
        """Pass on what either side sent, as far as a handshake needs it."""
        with suppress(ssl.SSLWantReadError):
            self.peer.do_handshake()
        while data := self._outgoing.read():
            self.give(data)
        self.incoming.write(self.socket.sent)
        self.socket.sent = b""

    def established(self) -> Encrypted:
        for _ in range(4):
            self.exchange()
        assert self.peer.version() == "TLSv1.3"
        with suppress(ssl.SSLWantReadError):
            self.peer.read()  # the session tickets
        return self

    def send(self, data: bytes) -> None:
        self.peer.write(data)
        self.give(self._outgoing.read())

    def read(self) -> bytes:
        """Return what the peer reads; b"" if the connection of TLS was ended."""
        self.incoming.write(self.socket.sent)
        self.socket.sent = b""
        return self.peer.read(100)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def encrypted(certificates: Certificates) -> Encrypted:
    return Encrypted(certificates)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_handshake_ends_its_timeout_and_no_request_is_read_before(encrypted: Encrypted) -> None:
    [timer] = encrypted.loop.timers
    assert (timer.delay_s, HANDSHAKE_S) == (30.0, 30.0)
    encrypted.client.may_read = False
    encrypted.exchange()
    ended = [timer.is_cancelled]
    encrypted.client.may_read = True
    encrypted.established()
    assert [*ended, timer.is_cancelled] == [False, True]
    assert encrypted.client.calls == ["made"]
    encrypted.send(b"x" * 20)
    assert encrypted.client.received == [b"x" * 8, b"x" * 8, b"x" * 4]
    encrypted.transport.write(b"answer")
    assert encrypted.read() == b"answer"
    encrypted.transport.writelines([b"more", b"", b" answers"])
    assert encrypted.read() + encrypted.read() == b"more answers"


def test_handshake_that_is_not_done_in_time_is_aborted_and_logged(
    encrypted: Encrypted, caplog: pytest.LogCaptureFixture
) -> None:
    encrypted.exchange()
    encrypted.loop.timers[0].fire()
    assert encrypted.socket.calls == ["abort"]
    assert warnings(caplog) == ["Closing the connection from 127.0.0.1 on SSL: no TLS handshake in time"]
    encrypted.give(b"late")
    assert (encrypted.client.received, encrypted.socket.calls) == ([], ["abort"])


def test_timeout_of_a_connection_that_is_closing_does_nothing(
    encrypted: Encrypted, caplog: pytest.LogCaptureFixture
) -> None:
    encrypted.transport.close()
    encrypted.loop.timers[0].fire()
    assert (encrypted.socket.calls, warnings(caplog)) == (["close"], [])


@pytest.mark.parametrize("begun", [False, True])
def test_lost_connection_ends_the_timeout_and_takes_nothing_more(encrypted: Encrypted, begun: bool) -> None:
    if begun:
        encrypted.exchange()
    encrypted.transport.connection_lost(None)
    assert encrypted.loop.timers[0].is_cancelled
    assert encrypted.client.calls == ["made", ("lost", None)]
    assert encrypted.transport.is_closing()
    encrypted.give(b"late")
    encrypted.transport.write(b"late")
    assert encrypted.socket.sent == b""


def test_closed_connection_ends_tls_and_is_closed_once(encrypted: Encrypted) -> None:
    encrypted.established()
    assert not encrypted.transport.is_closing()
    encrypted.transport.close()
    assert (encrypted.transport.is_closing(), encrypted.socket.calls) == (True, ["close"])
    encrypted.transport.close()
    encrypted.transport.write(b"late")
    encrypted.send(b"late")
    assert (encrypted.client.received, encrypted.socket.calls) == ([], ["close"])


def test_end_of_tls_is_sent_before_the_socket_is_closed(encrypted: Encrypted) -> None:
    encrypted.established()
    encrypted.transport.close()
    assert encrypted.socket.sent
    assert encrypted.read() == b""


@pytest.mark.parametrize("begun", [False, True])
def test_connection_without_a_handshake_is_closed_without_a_word(encrypted: Encrypted, begun: bool) -> None:
    if begun:
        encrypted.give(b"\x16\x03\x01")
    encrypted.transport.close()
    assert (encrypted.socket.sent, encrypted.socket.calls) == (b"", ["close"])
    encrypted.give(b"late")
    assert (encrypted.transport._session is not None) == begun


def test_aborted_connection_says_and_takes_nothing_more(encrypted: Encrypted) -> None:
    encrypted.established()
    encrypted.transport.abort()
    encrypted.transport.write(b"late")
    encrypted.send(b"late")
    encrypted.transport.close()
    assert (encrypted.socket.sent, encrypted.socket.calls, encrypted.client.received) == (b"", ["abort"], [])
    assert encrypted.transport.is_closing()


def test_connection_is_closing_once_its_socket_is(encrypted: Encrypted) -> None:
    encrypted.established()
    encrypted.socket.calls.append("close")
    assert encrypted.transport.is_closing()
    encrypted.transport.write(b"late")  # and nothing is written to the socket


def test_response_before_the_handshake_is_a_failure_and_none_before_the_first_byte(
    encrypted: Encrypted, caplog: pytest.LogCaptureFixture
) -> None:
    encrypted.transport.write(b"early")
    assert (encrypted.socket.sent, encrypted.socket.calls) == (b"", [])
    encrypted.give(b"\x16\x03\x01")
    encrypted.transport.write(b"early")
    assert encrypted.socket.calls == ["close"]
    assert len(warnings(caplog)) == 1
    assert encrypted.loop.timers[0].is_cancelled


@pytest.mark.parametrize("end", ["close", "abort"])
def test_client_that_ends_the_connection_gets_no_further_bytes(encrypted: Encrypted, end: str) -> None:
    encrypted.established()
    encrypted.client.on_bytes = getattr(encrypted.transport, end)
    encrypted.send(b"x" * 20)
    assert encrypted.client.received == [b"x" * 8]


def test_client_that_pauses_gets_the_rest_in_a_later_turn(encrypted: Encrypted) -> None:
    encrypted.established()
    encrypted.client.on_bytes = encrypted.transport.pause_reading
    encrypted.send(b"x" * 20)
    assert (encrypted.client.received, encrypted.socket.calls) == ([b"x" * 8], ["pause_reading"])
    encrypted.send(b"y" * 4)
    assert encrypted.client.received == [b"x" * 8]
    encrypted.client.on_bytes = lambda: None
    encrypted.transport.resume_reading()
    assert encrypted.client.received == [b"x" * 8]
    [(call, *arguments)] = encrypted.loop.soon
    call(*arguments)
    assert b"".join(encrypted.client.received) == b"x" * 20 + b"y" * 4
    assert encrypted.socket.calls == ["pause_reading", "resume_reading"]


def test_delayed_connection_begins_its_handshake_when_reading_resumes(encrypted: Encrypted) -> None:
    encrypted.transport.pause_reading()
    encrypted.exchange()
    assert encrypted.incoming.pending == 0
    encrypted.transport.resume_reading()
    [(call, *arguments)] = encrypted.loop.soon
    call(*arguments)
    encrypted.established()


def test_nothing_is_read_again_before_the_first_byte(encrypted: Encrypted) -> None:
    encrypted.transport.pause_reading()
    encrypted.transport.resume_reading()
    assert encrypted.loop.soon == []


def test_peer_that_ends_tls_is_served_what_it_sent_before(encrypted: Encrypted) -> None:
    encrypted.established()
    encrypted.peer.write(b"last")
    with suppress(ssl.SSLWantReadError):
        encrypted.peer.unwrap()
    encrypted.give(encrypted._outgoing.read())
    assert (encrypted.client.received, encrypted.socket.calls) == ([b"last"], ["close"])


def test_backpressure_and_properties_are_those_of_the_socket(encrypted: Encrypted) -> None:
    transport = encrypted.transport
    transport.pause_writing()
    transport.resume_writing()
    transport.set_write_buffer_limits(9, 4)
    assert encrypted.client.calls == ["made", "pause_writing", "resume_writing"]
    assert encrypted.socket.calls == [(9, 4)]
    assert (transport.get_extra_info("peername"), transport.get_extra_info("other", 1)) == ("address", 1)
    assert transport.get_extra_info("sslcontext") is transport._tls.context


class Session:
    """A session of OpenSSL that answers the next bytes of the peer by itself."""

    def __init__(self, version: str, outgoing: ssl.MemoryBIO) -> None:
        self.version = lambda: version
        self._outgoing = outgoing

    def read(self, _size: int, _buffer: memoryview) -> int:
        self._outgoing.write(b"answer of OpenSSL")
        raise ssl.SSLWantReadError


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_renegotiation_ends_the_connection_and_an_update_of_keys_does_not(
    encrypted: Encrypted, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    """In TLS 1.2 only a renegotiation makes OpenSSL answer by itself, in TLS 1.3 an update of keys (CVE-2011-1473)."""
    transport = encrypted.established().transport
    encrypted.socket.sent = b""
    session: Any = Session(version, transport._outgoing)
    transport._session = session
    encrypted.give(b"record")
    assert encrypted.socket.sent == b"answer of OpenSSL"
    is_refused = version == "TLSv1.2"
    assert encrypted.socket.calls == (["close"] if is_refused else [])
    text = "Closing the connection from 127.0.0.1 on SSL: the client requests a renegotiation"
    assert warnings(caplog) == ([text] if is_refused else [])
    transport._session = None


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "the client does not use TLS"),
        (b"CONNECT host:1 HTTP/1.1\r\n\r\n", "the client does not use TLS"),
        (b"\0\0\0\x12\0\x12\0\3\0\0\0\1\0\2me\0\0\0\0\0\0", "the client does not use TLS"),
    ],
)
def test_failed_handshake_is_logged_once_and_closes_after_its_alert(
    encrypted: Encrypted, caplog: pytest.LogCaptureFixture, sent: bytes, why: str
) -> None:
    encrypted.give(sent)
    encrypted.give(sent)
    [line] = warnings(caplog)
    assert line.startswith(f"Closing the connection from 127.0.0.1 on SSL: {why}")
    assert encrypted.socket.calls == ["close"]
    assert encrypted.loop.timers[0].is_cancelled


def test_certificate_that_was_not_requested_names_nobody(certificates: Certificates, tmp_path: Path) -> None:
    der = ssl.PEM_cert_to_DER_cert(certificates.alice.read_text().partition("-----END PRIVATE KEY-----\n")[2])
    session: Any = SimpleNamespace(getpeercert=lambda *, binary_form: der if binary_form else {})
    names = [listener_tls(certificates, auth).principal_of(session) for auth in ("none", "requested", "required")]
    assert names[0] == "User:ANONYMOUS"
    assert names[1] == names[2]
    assert names[1].startswith("User:CN=alice")
