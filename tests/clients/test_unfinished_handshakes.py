"""Attacks on secured listeners by many connections at a time.

They stop before, in and after the TLS handshake and in each step of SASL, send a byte at a time, or guess passwords.
Meanwhile a client that authenticates is served within `SERVED_S`, a member of a group stays in it, and the broker's
memory stays within a bound for each connection; after their end clients are served as before, and the memory is used
again.
"""

from __future__ import annotations

import os
import resource
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from broker.network.connection_limits import connections_within
from broker.security.scram import ScramClient
from controller.scram import SCRAM_BY_NAME
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.headers import RequestHeader, encode_request_header
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.schema import Message
from tests import proofs
from tests.broker_process import QUICK_GROUPS, BrokerProcess
from tests.certificates import Certificates
from tests.raw_client import RawClient

CONNECTIONS = int(os.environ.get("BARNABAS_TEST_UNFINISHED_HANDSHAKES", "150"))
SERVED_S = 5.0
TIMEOUT_S = 30.0
BYTES_EACH = 160 * 1024
"""Bound for the memory of one connection, with its TLS state: OpenSSL takes about 60 KB."""
SPARE_BYTES = 24 << 20
SCRAM = "SCRAM-SHA-512"
SPARE_FILES = 2000
SPARE_CONNECTIONS = 20
"""Those of clients that are served meanwhile."""
SLOW_BYTES = 5
"""How many bytes each slow connection sends."""
MOST_REPEATED = 3000
BEAT_S = 0.2
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LISTENERS = ("SASL_SSL", "SASL_PLAINTEXT")


def possible_connections() -> int:
    """Return `CONNECTIONS`, or as many as the limit of open files allows if it cannot be raised that far."""
    wanted = 2 * CONNECTIONS + SPARE_FILES  # brokers leave half of the descriptors to connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < wanted:
        with suppress(ValueError, OSError):  # only root can
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, wanted))
            hard = wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(wanted, hard)), hard))
    return min(CONNECTIONS, connections_within(hard) - SPARE_CONNECTIONS)


class Attacked:
    """The broker, and how its clients connect."""

    def __init__(self, process: BrokerProcess, certificates: Certificates) -> None:
        self.process = process
        self._context = ssl.create_default_context(cafile=str(certificates.trusted))
        text = process.log.read_text()
        self._ports = {
            name: int(text.split(f"{name}://127.0.0.1:")[1].split(",")[0].split()[0]) for name in (*LISTENERS, "INSIDE")
        }
        self.connections = possible_connections()

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

    def inside(self) -> RawClient:
        """Return a client of the listener without security."""
        return RawClient(f"127.0.0.1:{self._ports['INSIDE']}", TIMEOUT_S)

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


def sasl_token(response: bytes) -> bytes:
    """Return the token in a response of SaslAuthenticate 1."""
    answer = SaslAuthenticateResponse.decode(memoryview(bytearray(response)), 1, 4)
    assert answer.error_code == ErrorCode.NONE, answer
    return bytes(answer.auth_bytes)


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


class Member:
    """A member of a group that sends heartbeats from a thread; its session is as short as `SERVED_S`."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self._ended = False
        self._answered = threading.Condition()
        self._beats = 0
        self._slowest_s = 0.0
        self._error = ""
        self._join()
        self._thread = threading.Thread(target=self._beat)
        self._thread.start()

    def _join(self) -> None:
        """Join the group, once its coordinator is there."""
        deadline = time.monotonic() + TIMEOUT_S
        self._client.call(ApiKey.FIND_COORDINATOR, 0, key="heartbeats")
        joined = None
        while joined is None or joined.error_code != ErrorCode.NONE:
            assert time.monotonic() < deadline, f"joining failed: {joined}"
            joined = self._client.call(
                ApiKey.JOIN_GROUP,
                2,
                group_id="heartbeats",
                session_timeout_ms=int(SERVED_S * 1000),
                rebalance_timeout_ms=60_000,
                member_id="",
                protocol_type="consumer",
                protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
            )
        self._membership = {
            "group_id": "heartbeats",
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
        }
        assigned = SyncGroupRequest.Assignment(member_id=joined.member_id, assignment=b"")
        self._client.call(ApiKey.SYNC_GROUP, 2, **self._membership, assignments=[assigned])

    def check(self) -> None:
        """Wait for the next two heartbeats; fail if one since the last check was refused, or answered late."""
        with self._answered:
            wanted = self._beats + 2
            self._answered.wait_for(lambda: self._beats >= wanted or self._error, TIMEOUT_S)
            assert self._beats >= wanted, self._error
            assert self._slowest_s < SERVED_S
            self._slowest_s = 0.0

    def stop(self) -> None:
        """End the thread and the connection."""
        self._ended = True
        self._thread.join()
        self._client.close()

    def _beat(self) -> None:
        """Send heartbeats, one after another with a pause, until one is refused."""
        while not (self._ended or self._error):
            began_s = time.monotonic()
            try:
                code = self._client.call(ApiKey.HEARTBEAT, 2, **self._membership).error_code
                error = "" if code == ErrorCode.NONE else ErrorCode(code).name
            except OSError as failure:
                error = repr(failure)
            with self._answered:
                self._beats += not error
                self._error = error
                self._slowest_s = max(self._slowest_s, time.monotonic() - began_s)
                self._answered.notify_all()
                self._answered.wait_for(lambda: self._ended, BEAT_S)


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
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
        **{
            f"listener.name.{name.lower()}.plain.sasl.jaas.config": f'{PLAIN} user_alice="secret";'
            for name in LISTENERS
        },
    }
    folder = tmp_path_factory.mktemp("broker")
    user = ("--add-scram", f"{SCRAM}=[name=alice,password=secret]")
    possible_connections()  # also for the broker, which inherits the limit
    with BrokerProcess(folder, {**QUICK_GROUPS, **settings, **certificates.broker_settings()}, options=user) as process:
        attacked = Attacked(process, certificates)
        for listener in LISTENERS:
            attacked.serve_one(listener)
        yield attacked
        assert process.stop(120) == 0
    process.check_log()


@pytest.fixture(scope="module")
def lasting_member(broker: Attacked) -> Iterator[Member]:
    found = Member(broker.inside())
    yield found
    found.stop()


@pytest.fixture
def member(lasting_member: Member) -> Iterator[Member]:
    yield lasting_member
    lasting_member.check()


@pytest.mark.usefixtures("member")
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
        for number in range(broker.connections):
            held.enter_context(stop(broker, listener))
            if number % 1000 == 999:
                assert broker.serve_one(listener) < SERVED_S
        assert broker.serve_one(listener) < SERVED_S
        assert broker.resident_bytes() - before < SPARE_BYTES + broker.connections * BYTES_EACH
    assert broker.serve_one(listener) < SERVED_S
    proofs.count("connections that stopped in a handshake", broker.connections)


@pytest.mark.usefixtures("member")
@pytest.mark.parametrize("listener", LISTENERS)
def test_connections_that_send_a_byte_at_a_time_take_bounded_memory_and_do_not_keep_others_waiting(
    broker: Attacked, listener: str
) -> None:
    slow = broker.client_hello() if listener == "SASL_SSL" else framed(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    before = broker.resident_bytes()
    with ExitStack() as held:
        clients = [held.enter_context(broker.connect(listener)) for _ in range(broker.connections)]
        for at in range(SLOW_BYTES):
            for client in clients:
                with suppress(ConnectionError):  # closed, as its handshake took too long
                    client.send(slow[at : at + 1])
            assert broker.serve_one(listener) < SERVED_S
        assert broker.resident_bytes() - before < SPARE_BYTES + broker.connections * BYTES_EACH
    assert broker.serve_one(listener) < SERVED_S
    proofs.count("connections that sent a byte at a time", broker.connections)


@pytest.mark.usefixtures("member")
@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_guesses_of_a_password_do_not_keep_other_clients_waiting(broker: Attacked, user: str) -> None:
    def guess(held: ExitStack) -> None:
        """Send a proof of a wrong password, without awaiting the answer, which is delayed."""
        client = held.enter_context(broker.open("SASL_PLAINTEXT"))
        scram = ScramClient(SCRAM_BY_NAME[SCRAM], user, "", "nonce")
        call(client, SaslHandshakeRequest(mechanism=SCRAM), 1)
        challenge = sasl_token(call(client, SaslAuthenticateRequest(auth_bytes=scram.first()), 1))
        nonce = challenge.split(b",")[0].decode()
        proof = f"c=biws,{nonce},p={'A' * 86}==".encode()
        client.sendall(framed(SaslAuthenticateRequest(auth_bytes=proof), 1))

    before = broker.resident_bytes()
    with ExitStack() as held:
        for number in range(broker.connections):
            guess(held)
            if number % 1000 == 999:
                assert broker.serve_one("SASL_PLAINTEXT") < SERVED_S
        assert broker.serve_one("SASL_PLAINTEXT") < SERVED_S
        assert broker.resident_bytes() - before < SPARE_BYTES + broker.connections * BYTES_EACH
    assert broker.serve_one("SASL_PLAINTEXT") < SERVED_S
    proofs.count("guesses of a password", broker.connections)


def test_memory_of_ended_connections_is_used_again(broker: Attacked) -> None:
    count = min(broker.connections, MOST_REPEATED)

    def attack() -> int:
        with ExitStack() as held:
            for _ in range(count):
                held.enter_context(after_the_sasl_handshake(broker, "SASL_SSL"))
            return broker.resident_bytes()

    first = [attack() for _ in range(2)][-1]
    again = [attack() for _ in range(3)][-1]
    assert again - first < SPARE_BYTES
