"""Attack drills: a member of a group that has to stay in it, and the bounds that hold during and after an attack.

During an attack no other client waits for `SERVED_S` or longer, and the broker's memory stays within a bound. At most
`SERVED_S` after it the connections are closed in the broker, and clients are served as before.
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
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from broker.network.connection_limits import connections_within
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.headers import RequestHeader, encode_request_header
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.schema import Message
from tests import proofs
from tests.broker_process import QUICK_GROUPS, BrokerProcess
from tests.certificates import Certificates
from tests.raw_client import RawClient

SERVED_S = 5.0
TIMEOUT_S = 30.0
BYTES_EACH = 160 * 1024
"""Bound for the memory of one connection, with its TLS state: OpenSSL takes about 60 KB."""
SPARE_BYTES = 24 << 20
SPARE_FILES = 20
"""Descriptors of other clients that come and go."""
BEAT_S = 0.2
SCRAM = "SCRAM-SHA-512"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LISTENERS = ("SASL_SSL", "SASL_PLAINTEXT")
_RESERVED_FILES = 2000


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


def possible_connections(most: int) -> int:
    """Return `most`, or as many as the limit of open files allows if it cannot be raised that far."""
    wanted = 2 * most + _RESERVED_FILES  # brokers leave half of the descriptors to connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < wanted:
        with suppress(ValueError, OSError):  # only root can
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, wanted))
            hard = wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(wanted, hard)), hard))
    return min(most, connections_within(hard) - SPARE_FILES)


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

    def check(self) -> float:
        """Wait for the next two heartbeats; return the time in seconds of the slowest since the last check.

        Fail if one was refused, or answered late.
        """
        with self._answered:
            wanted = self._beats + 2
            self._answered.wait_for(lambda: self._beats >= wanted or self._error, TIMEOUT_S)
            assert self._beats >= wanted, self._error
            slowest_s, self._slowest_s = self._slowest_s, 0.0
        assert slowest_s < SERVED_S
        return slowest_s

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


class Attack:
    """The connections of an attack, and how long others waited meanwhile."""

    def __init__(self, serve_one: Callable[[], float]) -> None:
        """`serve_one` serves another client, and returns the time in seconds."""
        self.held = ExitStack()
        self.slowest_s = 0.0
        self._serve_one = serve_one

    def serve_another(self) -> None:
        """Serve another client; fail if that takes `SERVED_S` or longer."""
        took_s = self._serve_one()
        self.slowest_s = max(self.slowest_s, took_s)
        assert took_s < SERVED_S


@contextmanager
def drill(
    what: str, pid: int, member: Member, serve_one: Callable[[], float], count: int, bytes_each: int, spare: int
) -> Iterator[Attack]:
    """Run the block as an attack of `count` connections on the broker `pid`; check the bounds, report the figures."""
    attack = Attack(serve_one)
    before, files = resident_bytes(pid), _open_files(pid)
    with attack.held:
        yield attack
        attack.serve_another()
        slowest_s = member.check()
        grown = max(resident_bytes(pid) - before, 0)
        assert grown < spare + count * bytes_each, f"{grown >> 20} MB more than before"
    ended = time.monotonic()
    attack.serve_another()
    while (still := _open_files(pid)) > files + SPARE_FILES:
        assert time.monotonic() - ended < SERVED_S, f"{still} open files, and {files} before"
        attack.serve_another()
    recovered_s = time.monotonic() - ended
    assert recovered_s < SERVED_S
    slowest_s = max(slowest_s, member.check(), attack.slowest_s)
    proofs.note(
        f"{what}: {count:,} at a time, {grown / count / 1024:.1f} KB each, others waited up to {slowest_s:.2f} s,"
        f" recovered in {recovered_s:.2f} s"
    )


class Attacked:
    """The broker, and how its clients connect."""

    def __init__(self, process: BrokerProcess, certificates: Certificates, connections: int) -> None:
        """Attack with so many `connections` at a time."""
        self.process = process
        self.trusted = certificates.trusted
        self._context = ssl.create_default_context(cafile=str(certificates.trusted))
        text = process.log.read_text()
        self._ports = {
            name: int(text.split(f"{name}://127.0.0.1:")[1].split(",")[0].split()[0]) for name in (*LISTENERS, "INSIDE")
        }
        self.connections = connections

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

    def drill(
        self,
        what: str,
        listener: str,
        member: Member,
        *,
        count: int = 0,
        bytes_each: int = BYTES_EACH,
        spare: int = SPARE_BYTES,
    ) -> AbstractContextManager[Attack]:
        """Run the block as an attack by `connections`, or by `count`."""
        serve_one = partial(self.serve_one, listener)
        what, count = f"{listener}: {what}", count or self.connections
        return drill(what, self.process.pid, member, serve_one, count, bytes_each, spare)


@contextmanager
def attacked_broker(folders: pytest.TempPathFactory, most: int) -> Iterator[Attacked]:
    """Run a broker for attacks by `most` connections at a time, or as many as the system allows."""
    certificates = Certificates(folders.mktemp("certificates"))
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
    user = ("--add-scram", f"{SCRAM}=[name=alice,password=secret]")
    connections = possible_connections(most)  # also for the broker, which inherits the limit
    properties: dict[str, object] = {**QUICK_GROUPS, **settings, **certificates.broker_settings()}
    with BrokerProcess(folders.mktemp("broker"), properties, options=user) as process:
        attacked = Attacked(process, certificates, connections)
        for listener in LISTENERS:
            attacked.serve_one(listener)
        yield attacked
        assert process.stop(120) == 0
    process.check_log()


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
