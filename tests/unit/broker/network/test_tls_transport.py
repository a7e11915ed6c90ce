"""Encrypted connections on real sockets and both loops."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import ssl
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.monitoring.rate import SampleWindow
from broker.network import tls_transport
from broker.network.connection import Connection
from broker.network.connection_counts import ConnectionLimits
from broker.network.connection_protocol import DeferredResponse
from broker.quotas.connection_rates import ConnectionRates, RateLimits
from broker.security.listener_tls import ListenerTls
from controller.configs import BROKER_CONFIGS, parse_value
from protocol.api import ApiKey
from protocol.primitives import Part
from storage.disk import UnsyncedDisk
from storage.log.file_slice import FileSlice
from tests.certificates import Certificates
from tests.typed import present
from tests.unit.broker.conftest import Run, Serving, framed

MOST_IN_A_BIO = 84 * 1024
"""A slice, and a record that precedes it."""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def listener_tls(certificates: Certificates, client_auth: str = "none", **others: str) -> ListenerTls:
    settings = certificates.broker_settings(**others)

    def value(name: str) -> Any:
        return parse_value(BROKER_CONFIGS[name], settings.get(name, BROKER_CONFIGS[name].default))

    return ListenerTls(value, UnsyncedDisk(), client_auth)


def client_context(certificates: Certificates, identity: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificates.trusted))
    if identity is not None:
        context.load_cert_chain(identity)
    return context


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - the condition has no event
        await asyncio.sleep(0)


def principal(_body: bytes, connection: Connection) -> list[Part]:
    return [framed(connection.principal.encode())]


def test_requests_are_answered_in_order(run: Run, serving: Serving, certificates: Certificates) -> None:
    async def body() -> None:
        async with serving(tls=listener_tls(certificates)) as served:
            client = await served.connect(ssl=client_context(certificates))
            bodies = [b"%d" % number * 1000 for number in range(2000)]
            client.send(*bodies)
            assert [await client.receive() for _ in bodies] == bodies

    run(body())


def test_a_delayed_connection_shakes_hands_at_its_turn(run: Run, serving: Serving, certificates: Certificates) -> None:
    async def body() -> None:
        async with serving(tls=listener_tls(certificates)) as served:
            served.server.connection_rates = rates = ConnectionRates(SampleWindow(1, 50), lambda: 0.0)
            rates.limit(RateLimits(of_broker=20.0))  # one, and then another each 50 ms
            await served.connect(ssl=client_context(certificates))
            accepted_at = asyncio.get_running_loop().time()
            delayed = await served.connect(ssl=client_context(certificates))
            assert asyncio.get_running_loop().time() >= accepted_at + 0.05
            delayed.send(b"x")
            assert await delayed.receive() == b"x"

    run(body())


def test_large_requests_and_responses_pass(run: Run, serving: Serving, certificates: Certificates) -> None:
    async def body() -> None:
        async with serving(tls=listener_tls(certificates), max_request_bytes=64 << 20) as served:
            client = await served.connect(ssl=client_context(certificates), limit=64 << 20)
            content = bytes(range(256)) * (20 << 12)
            client.send(content, b"after")
            assert await client.receive() == content
            assert await client.receive() == b"after"

    run(body())


def test_slow_reader_gets_everything_while_its_responses_are_held(
    run: Run, serving: Serving, certificates: Certificates
) -> None:
    content = bytes(1 << 20)

    async def body() -> None:
        async with serving(tls=listener_tls(certificates)) as served:
            served.script.answer = lambda _body, _: [framed(content)]
            client = await served.connect(ssl=client_context(certificates), limit=1 << 16)
            client.send(*[b"x"] * 50)
            other = await served.connect(ssl=client_context(certificates), limit=2 << 20)
            other.send(b"y")
            assert await other.receive() == content
            assert len(served.script.seen) < 40
            for _ in range(50):
                assert await client.receive() == content

    run(body())


def test_file_slices_are_read_and_encrypted(
    run: Run, serving: Serving, certificates: Certificates, tmp_path: Path
) -> None:
    content = bytes(range(256)) * 8192
    (tmp_path / "file").write_bytes(content)

    async def body() -> None:
        async with serving(tls=listener_tls(certificates)) as served:
            file = UnsyncedDisk().open_file(str(tmp_path / "file"))
            part = FileSlice(file, 0, len(content))
            served.script.answer = lambda _body, _: [len(content).to_bytes(4, "big"), part]
            client = await served.connect(ssl=client_context(certificates), limit=8 << 20)
            client.send(b"x", b"y")
            assert [await client.receive(), await client.receive()] == [content, content]

    run(body())


def test_request_that_is_held_back_is_handled_after_the_response_before_it(
    run: Run, serving: Serving, certificates: Certificates
) -> None:
    async def body() -> None:
        async with serving(tls=listener_tls(certificates)) as served:
            future: asyncio.Future[list[Part] | None] = asyncio.get_running_loop().create_future()
            served.script.answer = lambda body, _: (
                DeferredResponse(ApiKey.METADATA, future) if body == b"first" else [framed(body)]
            )
            client = await served.connect(ssl=client_context(certificates))
            client.send(b"first", *[b"later"] * 3000)
            other = await served.connect(ssl=client_context(certificates))
            other.send(b"other")
            await other.receive()
            assert b"later" not in served.script.seen
            future.set_result([framed(b"done")])
            assert [await client.receive() for _ in range(3001)] == [b"done", *[b"later"] * 3000]

    run(body())


def test_subject_of_the_certificate_is_the_principal(run: Run, serving: Serving, certificates: Certificates) -> None:
    rules = "RULE:^CN=([^,]*),.*$/$1/U,DEFAULT"

    async def body() -> None:
        async with serving(tls=listener_tls(certificates, "requested", ssl_principal_mapping_rules=rules)) as served:
            served.script.answer = principal
            for identity, expected in ((None, b"User:ANONYMOUS"), (certificates.alice, b"User:ALICE")):
                client = await served.connect(ssl=client_context(certificates, identity))
                client.send(b"who")
                assert await client.receive() == expected

    run(body())


def warnings(caplog: pytest.LogCaptureFixture, logger: str = "broker.channel") -> Sequence[str]:
    return [record.getMessage() for record in caplog.records if record.name == logger]


def test_client_without_required_certificate_is_refused(
    run: Run, serving: Serving, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with serving(tls=listener_tls(certificates, "required")) as served:
            client = await served.connect(ssl=client_context(certificates))
            client.send(b"request")
            with suppress(ssl.SSLError, ConnectionError):  # uvloop ends the stream instead
                assert await client.reader.read() == b""
            assert served.script.seen == []

    run(body())
    assert warnings(caplog) == []
    assert warnings(caplog, "broker.audit") == [
        'Refused certificate: host="127.0.0.1" listener=PLAINTEXT reason="it sent no certificate, and '
        'ssl.client.auth=required"'
    ]


def test_certificate_of_another_authority_is_refused_in_the_audit_log(
    run: Run, serving: Serving, certificates: Certificates, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async def body() -> None:
        async with serving(tls=listener_tls(certificates, "required")) as served:
            client = await served.connect(ssl=client_context(certificates, Certificates(tmp_path).alice))
            client.send(b"request")
            with suppress(ssl.SSLError, ConnectionError):  # uvloop ends the stream instead
                assert await client.reader.read() == b""
            assert served.script.seen == []

    run(body())
    assert warnings(caplog) == []
    [line] = warnings(caplog, "broker.audit")
    assert line.startswith(
        'Refused certificate: host="127.0.0.1" listener=PLAINTEXT reason="its certificate is refused: '
    )


def test_certificate_without_matching_rule_is_refused(
    run: Run, serving: Serving, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        tls = listener_tls(certificates, "required", ssl_principal_mapping_rules="RULE:^CN=nobody$/x/")
        async with serving(tls=tls) as served:
            client = await served.connect(ssl=client_context(certificates, certificates.alice))
            client.send(b"request")
            assert await client.closed()
            assert served.script.seen == []

    run(body())
    assert "no rule of ssl.principal.mapping.rules applies to 'CN=alice," in warnings(caplog, "broker.audit")[0]


@pytest.mark.parametrize("sent", [framed(b"\0\x12\0\3" + bytes(20)), b"GET / HTTP/1.1\r\n\r\n"])
def test_client_without_tls_is_closed_with_a_hint(
    run: Run, serving: Serving, certificates: Certificates, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    async def body() -> None:
        async with serving(tls=listener_tls(certificates)) as served:
            client = await served.connect()
            client.writer.write(sent)
            await client.reader.read()
            assert served.script.seen == []

    run(body())
    assert warnings(caplog) == [
        "Closing the connection from 127.0.0.1 on PLAINTEXT: the client does not use TLS; does it have "
        "security.protocol=SSL or SASL_SSL?"
    ]


def test_client_that_does_not_trust_the_broker_is_logged_as_such(
    run: Run, serving: Serving, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with serving(tls=listener_tls(certificates)) as served:
            client, received, to_send = await served.connect(), ssl.MemoryBIO(), ssl.MemoryBIO()
            session = ssl.create_default_context().wrap_bio(received, to_send, server_hostname="127.0.0.1")
            with suppress(ssl.SSLCertVerificationError):
                while True:
                    with suppress(ssl.SSLWantReadError):
                        session.do_handshake()
                    client.writer.write(to_send.read())
                    received.write(await client.reader.read(1 << 16))
            client.writer.write(to_send.read())  # the alert
            await client.reader.read()

    run(body())
    assert warnings(caplog) == [
        "Closing the connection from 127.0.0.1 on PLAINTEXT: the client does not trust the certificate of this broker "
        "(unknown authority)"
    ]


def test_connection_counts_before_its_handshake(run: Run, serving: Serving, certificates: Certificates) -> None:
    async def body() -> None:
        async with serving(ConnectionLimits(1, 100), tls=listener_tls(certificates)) as served:
            first = await served.connect(ssl=client_context(certificates))
            first.send(b"x")
            await first.receive()
            second = await served.connect()
            assert await second.closed()

    run(body())


def test_client_that_never_shakes_hands_is_closed(
    run: Run, serving: Serving, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_transport, "HANDSHAKE_S", 0.01)

    async def body() -> None:
        async with serving(tls=listener_tls(certificates)) as served:
            for sent in (b"", b"\x16\x03\x01"):
                client = await served.connect()
                client.writer.write(sent)
                assert await client.closed()
            assert not served.server.connections

    run(body())


def test_client_that_ends_tls_is_closed(run: Run, serving: Serving, certificates: Certificates) -> None:
    async def body() -> None:
        async with serving(tls=listener_tls(certificates)) as served:
            client = await served.connect(ssl=client_context(certificates))
            client.send(b"x")
            await client.receive()
            client.writer.close()
            await until(lambda: not served.server.connections)

    run(body())


@pytest.mark.parametrize("by_the_client", [True, False])
def test_memory_of_openssl_is_freed_at_the_end_of_a_connection(
    run: Run, serving: Serving, certificates: Certificates, by_the_client: bool
) -> None:
    """Without the garbage collector, which does not count that memory."""

    async def body() -> None:
        async with serving(tls=listener_tls(certificates)) as served:
            client = await served.connect(ssl=client_context(certificates))
            client.send(b"x")
            await client.receive()
            [connection] = served.server.connections
            sessions = [weakref.ref(one) for one in gc.get_objects() if isinstance(one, ssl.SSLObject)]
            sessions = [one for one in sessions if present(one()).server_side]
            assert len(sessions) == 1
            (client.writer if by_the_client else connection._transport).close()
            del connection
            await until(lambda: not served.server.connections)
            await until(lambda: sessions[0]() is None)

    gc.collect()
    gc.disable()
    try:
        run(body())
    finally:
        gc.enable()


class WatchedBio:
    """A `ssl.MemoryBIO`, and the largest number of bytes that it ever had."""

    def __init__(self) -> None:
        self.bio = ssl.MemoryBIO()
        self.most = 0

    @property
    def pending(self) -> int:
        return self.bio.pending

    def read(self) -> bytes:
        self.most = max(self.most, self.pending)
        return self.bio.read()

    def write(self, data: memoryview) -> int:
        written = self.bio.write(data)
        self.most = max(self.most, self.pending)
        return written


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[WatchedBio]:
    """Return what is between OpenSSL and the server's connections."""
    made: list[WatchedBio] = []
    wrap_bio: Callable[..., ssl.SSLObject] = ssl.SSLContext.wrap_bio

    def memory_bio() -> WatchedBio:
        made.append(WatchedBio())
        return made[-1]

    def wrap_watched(context: ssl.SSLContext, incoming: Any, outgoing: Any, **options: Any) -> ssl.SSLObject:
        """The class `ssl.MemoryBIO` has no subclasses."""
        bios = [bio.bio if isinstance(bio, WatchedBio) else bio for bio in (incoming, outgoing)]
        return wrap_bio(context, *bios, **options)

    # In one module only, since clients use `ssl.MemoryBIO` too.
    monkeypatch.setattr(tls_transport, "ssl", SimpleNamespace(**vars(ssl) | {"MemoryBIO": memory_bio}))
    monkeypatch.setattr(ssl.SSLContext, "wrap_bio", wrap_watched)
    return made


@pytest.mark.parametrize(
    ("requests", "answer"),
    [
        ([bytes(1 << 20)], b"x"),
        ([b"x"] * 4, bytes(4 << 20)),
        ([b"%d" % number for number in range(20_000)], b"x"),  # more than a turn of the loop handles: reading pauses
    ],
)
def test_openssl_keeps_little_memory_after_large_requests_and_responses(
    run: Run,
    serving: Serving,
    certificates: Certificates,
    watched: list[WatchedBio],
    requests: list[bytes],
    answer: bytes,
) -> None:
    """A BIO keeps the memory of the most bytes that it ever had, as long as the connection is open."""

    async def body() -> None:
        async with serving(tls=listener_tls(certificates)) as served:
            served.script.answer = lambda _body, _: [framed(answer)]
            client = await served.connect(ssl=client_context(certificates), limit=8 << 20)
            client.send(*requests)
            for _ in requests:
                assert await client.receive() == answer
            assert served.script.seen == requests

    run(body())
    incoming, outgoing = (bio.most for bio in watched)
    assert 0 < incoming < MOST_IN_A_BIO
    assert 0 < outgoing < MOST_IN_A_BIO


def test_little_is_read_from_connections_while_request_memory_is_full(
    run: Run, serving: Serving, certificates: Certificates
) -> None:
    """The encrypted bytes of a connection that waits for memory do not count in it."""

    async def body() -> None:
        async with serving(tls=listener_tls(certificates), max_queued_bytes=1000) as served:
            client = await served.connect(ssl=client_context(certificates), limit=2 << 20)
            [connection] = served.server.connections
            transport: Any = connection._transport
            before = len(transport.get_buffer(-1))
            served.server.request_memory.take(1000)
            assert len(transport.get_buffer(-1)) == before / 16
            client.send(bytes(1 << 20))
            assert await client.receive() == bytes(1 << 20)

    run(body())


def test_damaged_record_closes_the_connection(run: Run, serving: Serving, certificates: Certificates) -> None:
    async def body() -> None:
        async with serving(tls=listener_tls(certificates)) as served:
            client = await served.connect(ssl=client_context(certificates))
            client.send(b"x")
            await client.receive()
            raw = socket.socket(fileno=os.dup(client.writer.get_extra_info("socket").fileno()))
            with raw:
                raw.send(b"\x17\x03\x03\x00\x05abcde")
            await until(lambda: not served.server.connections)

    run(body())


def test_new_connections_use_a_replaced_certificate(
    run: Run, serving: Serving, certificates: Certificates, tmp_path: Path
) -> None:
    others = Certificates(tmp_path)
    connect: Callable[[Certificates], Any] = client_context

    async def body() -> None:
        tls = listener_tls(certificates)
        async with serving(tls=tls) as served:
            before = await served.connect(ssl=connect(certificates))
            tls.replace_context(listener_tls(others))
            with pytest.raises(ssl.SSLError):
                await served.connect(ssl=connect(certificates))
            for client in (before, await served.connect(ssl=connect(others))):
                client.send(b"x")
                assert await client.receive() == b"x"

    run(body())
