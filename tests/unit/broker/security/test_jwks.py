from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from joserfc.jwk import ECKey, Key, KeySet, OctKey, OKPKey, RSAKey

from broker.security import jwks as jwks_module
from broker.security.jwks import Jwks, JwksTimes, parse_jwks
from broker.security.security_error import SecurityError
from storage.disk import OsDisk
from tests.certificates import Certificates
from tests.tokens import IdentityProvider

TIMES = JwksTimes(3600.0, 0.1, 10.0)
RSA = RSAKey.generate_key(2048).as_dict(private=False)
EC: dict[str, object] = {**ECKey.generate_key("P-256").as_dict(private=False), "kid": "bad"}


def ids(jwks: Jwks) -> list[str | None]:
    return [key.kid for key in jwks.keys().keys]


@contextmanager
def served(answer: Callable[[BaseHTTPRequestHandler], None], certificate: Path | None = None) -> Iterator[str]:
    """Serve `answer` to each GET on this machine, over TLS with a certificate; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        do_CONNECT = do_GET  # noqa: N815 - the name of http.server

        def log_message(self, *_: object) -> None: ...

    class Server(HTTPServer):
        def handle_error(self, *_: object) -> None:
            """Print nothing about clients that refuse the certificate."""

    scheme = "http"
    with Server(("127.0.0.1", 0), Handler) as server:
        if certificate is not None:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            # The handshake is the handler's, so that a failed one does not end the server.
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"{scheme}://127.0.0.1:{server.server_port}/keys"
        finally:
            server.shutdown()
            thread.join()


def test_keys_of_a_file_are_read_again_while_failures_keep_the_old_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys.json"
    jwks = Jwks(IdentityProvider("first").write(path), TIMES, OsDisk())

    async def check() -> None:
        loop = asyncio.get_running_loop()
        assert ids(jwks) == []
        await jwks.load(loop)
        assert ids(jwks) == ["first"]
        assert not jwks.is_due(loop.time())
        assert jwks.is_due(loop.time() + 5)
        IdentityProvider("second").write(path)
        await jwks.refresh(loop)
        assert ids(jwks) == ["second"]
        path.write_text("{")
        await jwks.refresh(loop)
        path.unlink()
        await jwks.refresh(loop)
        assert ids(jwks) == ["second"]

    asyncio.run(check())
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert ["not a JWKS" in errors[0], "no such file" in errors[1].lower()] == [True, True]


def test_keys_are_fetched_from_a_url_and_again_for_an_unknown_key_at_most_once_in_the_backoff() -> None:
    body = IdentityProvider("first").jwks.encode()

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(body)

    async def check(url: str) -> None:
        loop = asyncio.get_running_loop()
        jwks = Jwks(url, TIMES, OsDisk())
        await jwks.load(loop)
        assert ids(jwks) == ["first"]
        now_s = loop.time()
        jwks.request_refresh()
        assert [jwks.is_due(now_s + passed_s) for passed_s in (0, 9, 11)] == [False, False, True]
        await jwks.refresh(loop)
        assert not jwks.is_due(loop.time() + 3500)
        assert jwks.is_due(loop.time() + 3601)

    with served(answer) as url:
        asyncio.run(check(url))


def test_wait_after_failures_doubles_up_to_its_maximum(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    jwks = Jwks(IdentityProvider().write(path), JwksTimes(3600.0, 0.5, 2.0), OsDisk())
    waits = []

    async def check() -> None:
        loop = asyncio.get_running_loop()
        await jwks.load(loop)
        path.unlink()
        for _ in range(4):
            await jwks.refresh(loop)
            waits.append(jwks._wait_s)

    asyncio.run(check())
    assert waits == [0.5, 1.0, 2.0, 2.0]


def of_first(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    request.wfile.write(FIRST)


FIRST = IdentityProvider("first").jwks.encode()


def test_keys_are_fetched_over_tls_from_a_server_with_a_trusted_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = Certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.trusted))

    async def check(url: str) -> None:
        jwks = Jwks(url, TIMES, OsDisk())
        await jwks.load(asyncio.get_running_loop())
        assert ids(jwks) == ["first"]

    with served(of_first, certificates.broker) as url:
        asyncio.run(check(url))


@pytest.mark.parametrize(
    ("trusts", "identity", "expires", "why"),
    [
        (False, "127.0.0.1", None, "unable to get local issuer certificate"),
        (True, "idp.example.com", None, "IP address mismatch"),
        (True, "127.0.0.1", datetime(2020, 1, 1, tzinfo=UTC), "certificate has expired"),
    ],
)
def test_keys_of_a_server_with_another_certificate_are_refused_and_the_old_ones_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    trusts: bool,
    identity: str,
    expires: datetime | None,
    why: str,
) -> None:
    certificates = Certificates(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str((certificates if trusts else Certificates(other)).trusted))
    requested: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        requested.append(request.path)
        of_first(request)

    async def check(url: str) -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(SecurityError, match=f"jwks.endpoint.url=https://.*{why}"):
            await Jwks(url, TIMES, OsDisk()).load(loop)
        path = tmp_path / "keys.json"
        jwks = Jwks(IdentityProvider("old").write(path), TIMES, OsDisk())
        await jwks.load(loop)
        jwks._new_reading = Jwks(url, TIMES, OsDisk())._new_reading
        await jwks.refresh(loop)
        assert ids(jwks) == ["old"]

    with served(answer, certificates.issue("server", identity, expires=expires)) as url:
        asyncio.run(check(url))
    assert requested == []
    assert why in caplog.text


def test_server_that_refuses_the_connection_is_reported_with_the_systems_reason_only() -> None:
    async def check() -> None:
        with socket.socket() as bound:  # but not listening
            bound.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{bound.getsockname()[1]}/keys"
            with pytest.raises(SecurityError, match=rf"^sasl.oauthbearer.jwks.endpoint.url={url}: Connection refused$"):
                await Jwks(url, TIMES, OsDisk()).load(asyncio.get_running_loop())

    asyncio.run(check())


def test_server_that_does_not_answer_is_reported_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks_module, "_TIMEOUT_S", 0.1)

    async def check() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/keys"
            with pytest.raises(SecurityError, match=r"/keys: no answer within 0.1 s$"):
                await Jwks(url, TIMES, OsDisk()).load(asyncio.get_running_loop())

    asyncio.run(check())


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for scheme in ("http", "https", "all", "no"):
        for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper()):
            monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_proxies")
def test_plain_http_on_this_machine_uses_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[str] = []

    def other(request: BaseHTTPRequestHandler) -> None:
        requested.append(request.path)
        request.send_error(502)

    async def check(url: str) -> None:
        jwks = Jwks(url, TIMES, OsDisk())
        await jwks.load(asyncio.get_running_loop())
        assert ids(jwks) == ["first"]

    with served(other) as proxy, served(of_first) as url:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy)
        asyncio.run(check(url))
    assert requested == []


@pytest.mark.usefixtures("no_proxies")
def test_https_uses_the_proxy_of_the_environment_except_for_hosts_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = Certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.trusted))
    requested: list[tuple[str, str]] = []

    def refuse(request: BaseHTTPRequestHandler) -> None:
        requested.append((request.command, request.path))
        request.send_error(403)

    async def check(url: str) -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(SecurityError, match=r"jwks.endpoint.url=https://.*403"):
            await Jwks(url, TIMES, OsDisk()).load(loop)
        monkeypatch.setenv("no_proxy", "example.com,127.0.0.1")
        jwks = Jwks(url, TIMES, OsDisk())
        await jwks.load(loop)
        assert ids(jwks) == ["first"]

    with served(refuse) as proxy, served(of_first, certificates.issue("server", "127.0.0.1")) as url:
        monkeypatch.setenv("https_proxy", proxy)
        asyncio.run(check(url))
        address = url.removeprefix("https://").removesuffix("/keys")
    assert requested == [("CONNECT", address)]


@pytest.mark.parametrize("status", [302, 404, 500])
def test_redirection_or_error_is_no_source_of_keys(status: int) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Location", "http://127.0.0.1:1/other")
        request.end_headers()

    async def check(url: str) -> None:
        with pytest.raises(SecurityError, match=rf"sasl.oauthbearer.jwks.endpoint.url=.*{status}"):
            await Jwks(url, TIMES, OsDisk()).load(asyncio.get_running_loop())

    with served(answer) as url:
        asyncio.run(check(url))


@pytest.mark.parametrize(
    "answer",
    [
        b"rubbish\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n",
    ],
    ids=["status", "chunk", "headers"],
)
def test_an_answer_that_is_not_http_is_no_source_of_keys(answer: bytes, caplog: pytest.LogCaptureFixture) -> None:
    def respond(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(answer)

    async def check(url: str) -> None:
        loop = asyncio.get_running_loop()
        jwks = Jwks(url, TIMES, OsDisk())
        with pytest.raises(SecurityError, match=r"sasl.oauthbearer.jwks.endpoint.url=.*invalid HTTP response"):
            await jwks.load(loop)
        await jwks.refresh(loop)
        assert jwks.is_due(loop.time() + TIMES.backoff_s)

    with served(respond) as url:
        asyncio.run(check(url))
    assert "invalid HTTP response" in caplog.text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": []}',
        b'{"keys": 7}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}',
        b"[" * 100_000,
    ],
)
def test_set_without_public_keys_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a JWKS|no public key"):
        parse_jwks(data, unexpected)


def unexpected(why: str) -> None:
    raise AssertionError(why)


GOOD = {"kty": "RSA", "kid": "good", "n": RSA["n"], "e": RSA["e"]}


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (EC | {"crv": "P-999"}, "P-999"),
        (EC | {"key_ops": ["verify", "odd"]}, "'key_ops' must be one of"),
        (EC | {"key_ops": ["sign"]}, "Unsupported key_op 'verify'"),
        (EC | {"x": "!"}, "Error"),
        ({"kty": "EC", "kid": "bad"}, "'crv' is required"),
        (GOOD | {"kid": "bad", "n": "AQ"}, "ValueError"),
        (GOOD | {"kid": 7}, "'kid' must be a str"),
        ("no object", "AttributeError"),
        (None, "AttributeError"),
    ],
)
def test_keys_that_cannot_be_used_are_left_out_and_the_others_used(key: object, why: str) -> None:
    reasons: list[str] = []
    for keys in ([key, GOOD], [GOOD, key]):
        found = parse_jwks(json.dumps({"keys": keys}).encode(), reasons.append)
        assert [each.kid for each in found.keys] == ["good"]
    assert [why in each for each in reasons] == [True, True]
    with pytest.raises(ValueError, match="no public key for signatures"):
        parse_jwks(json.dumps({"keys": [key]}).encode(), reasons.append)


def test_keys_for_other_uses_are_left_out_without_a_reason() -> None:
    others = [EC | {"use": "enc"}, {"kty": "oct", "k": "c2VjcmV0"}, {"kty": "later"}, {"kty": ["RSA"]}, {}]
    found = parse_jwks(json.dumps({"keys": [*others, GOOD]}).encode(), unexpected)
    assert [key.kid for key in found.keys] == ["good"]


def test_a_key_that_cannot_be_used_is_logged_once_and_withdrawn_keys_are_not_kept_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys.json"

    def write(*keys: object) -> None:
        path.write_text(json.dumps({"keys": keys}))

    async def check() -> None:
        loop = asyncio.get_running_loop()
        jwks = Jwks(path.as_uri(), TIMES, OsDisk())
        write(GOOD | {"kid": "withdrawn"}, GOOD, EC | {"crv": "P-999"})
        await jwks.load(loop)
        assert ids(jwks) == ["withdrawn", "good"]
        write(EC | {"crv": "P-999"}, GOOD)
        await jwks.refresh(loop)
        assert ids(jwks) == ["good"]

    asyncio.run(check())
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert line == (
        "Ignoring a key that cannot be used: sasl.oauthbearer.jwks.endpoint.url="
        f"""{path.as_uri()}: kid="bad": "KeyError: 'P-999'\""""
    )


def test_only_a_regular_file_of_limited_size_is_a_source_of_keys(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # nothing writes to it: opening it would hold a thread for ever
    (tmp_path / "large").write_bytes(b"x" * (1024 * 1024 + 1))
    for name, why in (("pipe", "not a regular file"), ("large", "larger than 1048576 bytes")):
        path = tmp_path / name

        async def load(path: Path = path) -> None:
            await Jwks(path.as_uri(), TIMES, OsDisk()).load(asyncio.get_running_loop())

        with pytest.raises(SecurityError, match=f"={path.as_uri()}: {why}"):
            asyncio.run(load())


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["headers", "body"])
@pytest.mark.parametrize("encrypted", [False, True])
def test_an_answer_that_comes_byte_by_byte_is_given_up(
    head: bytes, encrypted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte is in time for a limit of single reads."""
    certificates = Certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.trusted))
    monkeypatch.setattr(jwks_module, "_MOST_S", 0.2)
    pause = threading.Event()

    def answer(request: BaseHTTPRequestHandler) -> None:
        with contextlib.suppress(OSError):  # the broker has closed the connection
            request.wfile.write(head)
            for _ in range(600):
                request.wfile.write(b"h")
                pause.wait(0.05)

    async def check(url: str) -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(SecurityError, match=r"not complete after 0.2 s"):
            await Jwks(url, TIMES, OsDisk()).load(loop)
        monkeypatch.setattr(jwks_module, "_MOST_S", 3600.0)
        with pytest.raises(TimeoutError):  # as by the stop of the node, which waits for the thread afterwards
            await asyncio.wait_for(Jwks(url, TIMES, OsDisk()).load(loop), 0.2)

    with served(answer, certificates.issue("server", "127.0.0.1") if encrypted else None) as url:
        asyncio.run(asyncio.wait_for(check(url), 20))


def test_keys_are_the_public_ones_for_signatures() -> None:
    usable = (
        RSAKey.generate_key(2048, {"kid": "rsa"}),
        ECKey.generate_key("P-256", {"kid": "ec", "use": "sig"}),
        OKPKey.generate_key("Ed25519", {"kid": "okp"}),
    )
    others = (
        RSAKey.generate_key(2048, {"kid": "for encryption", "use": "enc"}),
        OctKey.generate_key(256, {"kid": "secret", "use": "sig"}),
    )

    def parsed(*keys: Key) -> KeySet:
        return parse_jwks(json.dumps(KeySet(list(keys)).as_dict(private=False)).encode(), unexpected)

    assert [key.kid for key in parsed(*others, *usable).keys] == ["rsa", "ec", "okp"]
    for key in others:
        with pytest.raises(ValueError, match="it has no public key for signatures"):
            parsed(key)


@pytest.mark.parametrize("excess", [0, 1])
def test_answer_has_at_most_a_mebibyte(excess: int) -> None:
    body = IdentityProvider("first").jwks.encode().ljust((1 << 20) + excess)

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        with contextlib.suppress(OSError):  # the reader closes the connection
            request.wfile.write(body)

    with served(answer) as url:
        jwks = Jwks(url, TIMES, OsDisk())

        async def load() -> None:
            await jwks.load(asyncio.get_running_loop())

        if excess:
            with pytest.raises(SecurityError, match="the answer has more than 1048576 bytes"):
                asyncio.run(load())
        else:
            asyncio.run(load())
        assert ids(jwks) == ([] if excess else ["first"])


def test_new_keys_are_logged_and_the_same_ones_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "broker.security")
    path = tmp_path / "keys.json"
    jwks = Jwks(IdentityProvider("first").write(path), TIMES, OsDisk())

    async def check() -> None:
        loop = asyncio.get_running_loop()
        await jwks.load(loop)
        first = jwks.keys()
        await jwks.refresh(loop)
        assert jwks.keys() is first
        assert caplog.messages == []
        IdentityProvider("second").write(path)
        await jwks.refresh(loop)

    asyncio.run(check())
    found = [record.getMessage() for record in caplog.records if record.name == "broker.security"]
    assert found == ["Tokens are verified by the 1 keys that were read now"]
