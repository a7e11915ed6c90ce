"""Clients that stop before, in and after the TLS handshake and in each step of SASL, many at a time.

Meanwhile a client that authenticates is served within `SERVED_S`, and the broker's memory stays within a bound for each
connection; after their end it is served as before, and their memory is used again.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from protocol.api import ApiKey
from protocol.headers import RequestHeader, encode_request_header
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.schema import Message
from tests.broker_process import QUICK_GROUPS, BrokerProcess
from tests.certificates import Certificates

CONNECTIONS = int(os.environ.get("BARNABAS_TEST_UNFINISHED_HANDSHAKES", "150"))
SERVED_S = 5.0
TIMEOUT_S = 30.0
BYTES_EACH = 160 * 1024
"""Bound for the memory of one connection, with its TLS state: OpenSSL takes about 60 KB."""
SPARE_BYTES = 24 << 20
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LISTENERS = ("SASL_SSL", "SASL_PLAINTEXT")


class Attacked:
    """The broker, and how its clients connect."""

    def __init__(self, process: BrokerProcess, certificates: Certificates) -> None:
        self.process = process
        self._context = ssl.create_default_context(cafile=str(certificates.trusted))
        text = process.log.read_text()
        self._ports = {name: int(text.split(f"{name}://127.0.0.1:")[1].split(",")[0].split()[0]) for name in LISTENERS}

    def connect(self, listener: str) -> socket.socket:
        """Return a connection without TLS."""
        return socket.create_connection(("127.0.0.1", self._ports[listener]), TIMEOUT_S)

    def open(self, listener: str) -> socket.socket:
        """Return a connection, after the TLS handshake if the listener has TLS."""
        raw = self.connect(listener)
        if listener == "SASL_PLAINTEXT":
            return raw
        try:
            return self._context.wrap_socket(raw, server_hostname="127.0.0.1")
        except BaseException:
            raw.close()
            raise

    def client_hello(self) -> bytes:
        """Return the first message of a TLS handshake."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        with suppress(ssl.SSLWantReadError):
            self._context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1").do_handshake()
        return outgoing.read()

    def serve_one(self, listener: str) -> float:
        """Let a client authenticate and send a request; return the time in seconds."""
        began = time.monotonic()
        with self.open(listener) as client:
            call(client, SaslHandshakeRequest(mechanism="PLAIN"), 1)
            assert b"failed" not in call(client, SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2)
            assert call(client, None, 0)
        return time.monotonic() - began

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


def framed(request: Message | None, version: int) -> bytes:
    """Return the frame of a request; of ApiVersions if it is None."""
    key = ApiKey.API_VERSIONS if request is None else ApiKey(request.API_KEY)  # type: ignore[arg-type]
    body = b"" if request is None else bytes(request.encode(version))
    frame = encode_request_header(RequestHeader(key, version, 7, "me")) + body
    return struct.pack(">i", len(frame)) + frame


def call(client: socket.socket, request: Message | None, version: int) -> bytes:
    """Send a request, and return its response."""
    client.sendall(framed(request, version))
    with client.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4))
        return stream.read(size)


def silent(broker: Attacked, listener: str) -> socket.socket:
    return broker.connect(listener)


def half_a_client_hello(broker: Attacked, listener: str) -> socket.socket:
    client = broker.connect(listener)
    client.sendall(broker.client_hello()[:100])
    return client


def after_the_client_hello(broker: Attacked, listener: str) -> socket.socket:
    client = broker.connect(listener)
    client.sendall(broker.client_hello())
    client.recv(100)  # part of the server's flight; the rest stays in the socket
    return client


def plain_text_on_the_tls_port(broker: Attacked, listener: str) -> socket.socket:
    client = broker.connect(listener)
    client.sendall(framed(None, 0))
    return client


def tls_on_the_plain_port(broker: Attacked, listener: str) -> socket.socket:
    client = broker.connect(listener)
    client.sendall(broker.client_hello())
    return client


def after_the_tls_handshake(broker: Attacked, listener: str) -> socket.socket:
    return broker.open(listener)


def after_api_versions(broker: Attacked, listener: str) -> socket.socket:
    client = broker.open(listener)
    call(client, None, 0)
    return client


def in_the_sasl_handshake(broker: Attacked, listener: str) -> socket.socket:
    client = broker.open(listener)
    client.sendall(framed(SaslHandshakeRequest(mechanism="PLAIN"), 1)[:10])
    return client


def after_the_sasl_handshake(broker: Attacked, listener: str) -> socket.socket:
    client = broker.open(listener)
    call(client, SaslHandshakeRequest(mechanism="PLAIN"), 1)
    return client


def in_a_large_token(broker: Attacked, listener: str) -> socket.socket:
    client = after_the_sasl_handshake(broker, listener)
    client.sendall(struct.pack(">i", 500_000) + framed(SaslAuthenticateRequest(auth_bytes=b"x" * 2000), 2)[4:])
    return client


Stop = Callable[[Attacked, str], socket.socket]
OF_TLS: list[Stop] = [half_a_client_hello, after_the_client_hello, plain_text_on_the_tls_port, after_the_tls_handshake]
OF_SASL: list[Stop] = [silent, after_api_versions, in_the_sasl_handshake, after_the_sasl_handshake, in_a_large_token]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    certificates = Certificates(tmp_path_factory.mktemp("certificates"))
    names = ",".join(f"{name}:{name}" for name in LISTENERS)
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in (*LISTENERS, "INSIDE")),
        "listener.security.protocol.map": f"{names},INSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.enabled.mechanisms": "PLAIN",
        **{
            f"listener.name.{name.lower()}.plain.sasl.jaas.config": f'{PLAIN} user_alice="secret";'
            for name in LISTENERS
        },
    }
    folder = tmp_path_factory.mktemp("broker")
    with BrokerProcess(folder, {**QUICK_GROUPS, **settings, **certificates.broker_settings()}) as process:
        attacked = Attacked(process, certificates)
        for listener in LISTENERS:
            attacked.serve_one(listener)
        yield attacked
        assert process.stop() == 0
    process.check_log()


@pytest.mark.parametrize(
    ("listener", "stop"),
    [
        *(("SASL_SSL", stop) for stop in (*OF_TLS, *OF_SASL)),
        *(("SASL_PLAINTEXT", stop) for stop in (tls_on_the_plain_port, *OF_SASL)),
    ],
)
def test_unfinished_connections_take_bounded_memory_and_do_not_keep_other_clients_waiting(
    broker: Attacked, listener: str, stop: Stop
) -> None:
    before = broker.resident_bytes()
    with ExitStack() as held:
        for _ in range(CONNECTIONS):
            held.enter_context(stop(broker, listener))
        assert broker.serve_one(listener) < SERVED_S
        assert broker.resident_bytes() - before < SPARE_BYTES + CONNECTIONS * BYTES_EACH
    assert broker.serve_one(listener) < SERVED_S


def test_memory_of_ended_connections_is_used_again(broker: Attacked) -> None:
    def attack() -> int:
        with ExitStack() as held:
            for _ in range(CONNECTIONS):
                held.enter_context(after_the_sasl_handshake(broker, "SASL_SSL"))
            return broker.resident_bytes()

    first = [attack() for _ in range(2)][-1]
    again = [attack() for _ in range(3)][-1]
    assert again - first < SPARE_BYTES
