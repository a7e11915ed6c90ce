"""Commands that a broker refuses: the error names what is wrong, at once, and the broker has logged one attempt."""

from __future__ import annotations

import datetime
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tests.broker_process import BrokerProcess, free_address
from tests.certificates import Certificates
from tests.typed import present
from tests.unit.barnabas.conftest import Command, Shown

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "MAPPED": "SSL",
    "ELSEWHERE": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}
Refused = Callable[..., Shown]
FAILED = "kafka_server_socket_server_metrics_failed_authentication_total{"
WAIT_S = 60.0
"""The time-out of the commands, after which one that tries again would end."""


class Secured:
    """A broker with a listener for each kind of refusal."""

    def __init__(self, folder: Path) -> None:
        self.certificates = Certificates(folder)
        past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
        elsewhere = self.certificates.issue("elsewhere", "elsewhere.example")
        self.expired_broker = self.certificates.issue("past", "127.0.0.1", expires=past)
        self.expired = self.certificates.issue("bob", "bob@example.com", common_name="bob", expires=past)
        (folder / "others").mkdir()
        self.others = Certificates(folder / "others")
        self.broker = BrokerProcess(
            folder / "broker",
            {
                "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
                "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in LISTENERS.items()),
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.mapped.ssl.client.auth": "requested",
                "listener.name.mapped.ssl.principal.mapping.rules": "RULE:^CN=nobody$/nobody/",
                "listener.name.elsewhere.ssl.keystore.location": elsewhere,
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} user_alice="right";',
                "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} user_alice="right";',
                "barnabas.metrics.listener": "127.0.0.1:0",
                **self.certificates.broker_settings(),
            },
        )

    def start(self) -> None:
        self.broker.start()
        log = self.broker.log.read_text()
        self._ports = dict(re.findall(r"(\w+)://127\.0\.0\.1:(\d+)", log))
        self._metrics = present(re.search(r"http://[\d.:]+/metrics", log))[0]

    def failed_logins(self) -> float:
        """Return how many authentications the broker has refused."""
        with urlopen(self._metrics, timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(FAILED))

    def tls(self, protocol: str) -> dict[str, str]:
        return {"security_protocol": protocol, "ssl_ca_location": str(self.certificates.trusted)}

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self._ports[listener]}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    running = Secured(tmp_path_factory.mktemp("secured"))
    running.start()
    yield running
    running.broker.kill()
    assert "Traceback" not in running.broker.log.read_text()


@pytest.fixture
def refused(call: Command, secured: Secured) -> Refused:
    """Return a function that runs a command with settings at a listener."""

    def run(listener: str, *words: str, **settings: str) -> Shown:
        options = [f"-X{name.replace('_', '.')}={value}" for name, value in settings.items()]
        return call(*(words or ("topic", "list")), "-b", secured.address(listener), "-m", str(WAIT_S), *options)

    return run


@pytest.fixture(scope="module")
def advertising(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker that advertises a name which its certificate does not have."""
    address = free_address()
    port = address.rpartition(":")[2]
    own = {
        "listeners": f"SSL://{address}",
        "advertised.listeners": f"SSL://localhost:{port}",
        **secured.certificates.broker_settings(),
        "ssl.keystore.location": str(secured.certificates.issue("unnamed", "127.0.0.1")),
    }
    with BrokerProcess(tmp_path_factory.mktemp("advertising"), own):
        yield address


def login(mechanism: str = "PLAIN", user: str = "alice", password: str = "right") -> dict[str, str]:
    return {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": password}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("words", [("topic", "list"), ("consume", "orders"), ("produce", "orders"), ("cluster",)])
def test_refused_login_is_named_and_not_tried_again(
    refused: Refused, secured: Secured, words: tuple[str, ...], mechanism: str
) -> None:
    user, before = f"eve-{mechanism}-{words[0]}", secured.failed_logins()
    shown = refused("SASL_SSL", *words, **secured.tls("SASL_SSL"), **login(mechanism, user))
    assert (shown.status, shown.out) == (1, "")
    assert shown.err.startswith(f"barnabas {words[0]}")
    why = f"{secured.address('SASL_SSL')}: login of user {user} by {mechanism} refused: Authentication failed"
    assert f": cannot connect to {why}" in shown.err
    assert shown.err.endswith("; check user, password and mechanism\n")
    assert secured.failed_logins() == before + 1


def test_wrong_login_is_not_tried_at_the_other_addresses(refused: Refused, secured: Secured) -> None:
    before = secured.failed_logins()
    others = f"{secured.address('SASL_PLAINTEXT')},{secured.address('SASL_SSL')}"
    shown = refused(
        "SASL_PLAINTEXT", "topic", "list", "-b", others, security_protocol="SASL_PLAINTEXT", **login(password="x")
    )
    assert shown.err.count("refused") == 1
    assert secured.failed_logins() == before + 1
    assert secured.address("SASL_SSL") not in shown.err


@pytest.mark.parametrize("repeat", [("health", "--exit-when-healthy"), ("cluster", "--watch")])
def test_refused_login_ends_a_command_that_repeats(refused: Refused, secured: Secured, repeat: tuple[str, ...]) -> None:
    shown = refused("SASL_SSL", *repeat, **secured.tls("SASL_SSL"), **login(password="wrong"))
    assert shown.status == 1
    assert "login of user alice by PLAIN refused" in shown.err


def test_health_reports_a_refused_login(refused: Refused, secured: Secured) -> None:
    shown = refused("SASL_SSL", "health", **secured.tls("SASL_SSL"), **login(password="wrong"))
    assert shown.status == 1
    assert "login of user alice by PLAIN refused" in shown.out


def test_mechanism_that_is_not_enabled_is_named_with_the_enabled_ones(refused: Refused) -> None:
    shown = refused("SASL_PLAINTEXT", security_protocol="SASL_PLAINTEXT", **login("SCRAM-SHA-256"))
    why = "SASL mechanism SCRAM-SHA-256 is not enabled; set sasl.mechanism to an enabled one: PLAIN, SCRAM-SHA-512\n"
    assert shown.err.endswith(why)


@pytest.mark.parametrize(
    ("listener", "protocol", "message"),
    [
        ("PLAINTEXT", "SASL_PLAINTEXT", "it asks for no login: set security.protocol=PLAINTEXT"),
        ("SSL", "SASL_SSL", "it asks for no login: set security.protocol=SSL"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "does it require a login? Set security.protocol=SASL_PLAINTEXT"),
        ("SASL_SSL", "SSL", "does it require a login? Set security.protocol=SASL_SSL"),
        ("SASL_SSL", "SASL_PLAINTEXT", "does it require TLS? Set security.protocol=SSL or SASL_SSL"),
        ("SSL", "PLAINTEXT", "does it require TLS? Set security.protocol=SSL or SASL_SSL"),
        ("PLAINTEXT", "SSL", "does it use TLS? Else set security.protocol=PLAINTEXT or SASL_PLAINTEXT"),
        ("SASL_PLAINTEXT", "SASL_SSL", "does it use TLS? Else set security.protocol=PLAINTEXT or SASL_PLAINTEXT"),
    ],
)
def test_another_security_protocol_is_named(
    refused: Refused, secured: Secured, listener: str, protocol: str, message: str
) -> None:
    settings = {"security_protocol": protocol}
    if protocol.startswith("SASL"):
        settings |= login()
    if protocol.endswith("SSL"):
        settings |= secured.tls(protocol)
    shown = refused(listener, **settings)
    assert shown.status == 1
    assert f": cannot connect to {secured.address(listener)}" in shown.err
    assert message in shown.err


def test_certificate_that_is_not_trusted_is_named_with_the_authorities(refused: Refused, secured: Secured) -> None:
    others = str(secured.others.trusted)
    message = f"its certificate is not issued by an authority in {others}: set ssl.truststore.location"
    assert message in refused("SSL", security_protocol="SSL", ssl_ca_location=others).err
    assert "an authority that this system trusts" in refused("SSL", security_protocol="SSL").err


def test_name_that_is_not_in_the_certificate_is_named(refused: Refused, secured: Secured) -> None:
    shown = refused("ELSEWHERE", **secured.tls("SSL"))
    assert "its certificate does not have the name 127.0.0.1: connect by a name that it has" in shown.err


def test_expired_certificate_of_the_broker_is_named(call: Command, secured: Secured) -> None:
    # A broker does not start with an expired certificate, but may run until its own has expired.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(secured.expired_broker)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def handshake() -> None:
            server.accept()[0].close()  # the command's look whether something listens
            connection = server.accept()[0]
            with connection, suppress(OSError):
                context.wrap_socket(connection, server_side=True).close()

        serving = threading.Thread(target=handshake)
        serving.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        settings = [f"-X{name}={value}" for name, value in secured.tls("SSL").items()]
        shown = call("topic", "list", "-b", address, "-m", str(WAIT_S), *settings)
        serving.join()
    assert "its certificate, or one of its chain, has expired: renew it" in shown.err


@pytest.fixture
def by_inline_pem(call: Command, secured: Secured, tmp_path: Path) -> Callable[..., Shown]:
    """Return a function that runs a command with a file that has certificates, and a key, in its settings."""

    def run(chain: str, key: str, *others: str, between: str = " \\\n  ") -> Shown:
        trusted = secured.certificates.trusted.read_text()
        texts = {
            "ssl.truststore.certificates": trusted,
            "ssl.keystore.certificate.chain": chain,
            "ssl.keystore.key": key,
        }
        lines = [f"{name}={between.join(text.splitlines())}" for name, text in texts.items()]
        types = ("security.protocol=SSL", "ssl.truststore.type=PEM", "ssl.keystore.type=PEM")
        path = tmp_path / "client.properties"
        path.write_text("\n".join((*types, *lines, *others)))
        return call("topic", "list", "-b", secured.address("MUTUAL"), "--command-config", str(path))

    return run


@pytest.mark.parametrize("between", [" ", "", " \\\n  ", "\\n"])
def test_pem_text_of_a_file_of_settings_logs_in(
    by_inline_pem: Callable[..., Shown], secured: Secured, between: str
) -> None:
    both = secured.certificates.alice.read_text()
    shown = by_inline_pem(both, both, between=between)
    assert (shown.status, shown.err) == (0, "")


def test_pem_text_that_cannot_be_used_is_named_and_not_shown(
    by_inline_pem: Callable[..., Shown], secured: Secured, tmp_path: Path
) -> None:
    both = secured.certificates.alice.read_text()
    key = load_pem_private_key(both.encode(), None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")).decode()
    origin = f"barnabas topic list: ssl.keystore.key of {tmp_path / 'client.properties'}:"
    shown = by_inline_pem(both, encrypted)
    assert shown == (1, "", f"{origin} its private key is encrypted with a password: set ssl.key.password\n")
    shown = by_inline_pem(both, encrypted, "ssl.key.password=wrong")
    assert shown == (1, "", f"{origin} its private key is encrypted with another password than ssl.key.password\n")
    assert by_inline_pem(both, encrypted, "ssl.key.password=secret").status == 0
    shown = by_inline_pem(both, secured.others.alice.read_text())
    why = "it does not belong to the certificate of ssl.keystore.certificate.chain, or one of them is damaged"
    assert shown == (1, "", f"{origin} {why}\n")
    untrusted = secured.others.alice.read_text()
    shown = by_inline_pem(untrusted, untrusted)
    assert "it does not trust the authority of the client certificate ssl.keystore.certificate.chain of /" in shown.err


def test_encrypted_key_needs_its_password(refused: Refused, secured: Secured, tmp_path: Path) -> None:
    key = load_pem_private_key(secured.certificates.alice.read_bytes(), None)
    encrypted = tmp_path / "encrypted.pem"
    encrypted.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    identity = {"ssl_certificate_location": str(secured.certificates.alice), "ssl_key_location": str(encrypted)}
    message = f"key file {encrypted}: its private key is encrypted with a password: set ssl.key.password"
    assert message in refused("MUTUAL", **secured.tls("SSL"), **identity).err
    wrong = refused("MUTUAL", **secured.tls("SSL"), **identity, ssl_key_password="wrong")
    assert "encrypted with another password than ssl.key.password" in wrong.err
    other = {**identity, "ssl_key_location": str(secured.others.alice)}
    assert "its private key does not belong to its certificate" in refused("MUTUAL", **secured.tls("SSL"), **other).err
    assert refused("MUTUAL", **secured.tls("SSL"), **identity, ssl_key_password="secret").status == 0


@pytest.mark.parametrize(
    ("identity", "message"),
    [
        ("none", "it requires a client certificate: set ssl.keystore.location (ssl.certificate.location)"),
        ("untrusted", "it does not trust the authority of the client certificate {}: set ssl.keystore.location"),
        ("expired", "the client certificate {} has expired: set ssl.keystore.location"),
        ("unmapped", "does it refuse the client certificate {}?"),
    ],
)
def test_client_certificate_that_is_needed_or_refused_is_named(
    refused: Refused, secured: Secured, identity: str, message: str
) -> None:
    path = {
        "untrusted": secured.others.alice,
        "expired": secured.expired,
        "unmapped": secured.certificates.alice,
    }.get(identity)
    listener = "MAPPED" if identity == "unmapped" else "MUTUAL"
    own = {} if path is None else {"ssl_certificate_location": str(path)}
    shown = refused(listener, **secured.tls("SSL"), **own)
    assert shown.status == 1
    # The broker's alert may be lost: its connection is reset if a request arrives after it.
    lost = "it closes the connection after the TLS handshake"
    assert message.format(path) in shown.err or lost in shown.err


@pytest.mark.parametrize("words", [("topic", "list"), ("consume", "orders", "-e"), ("produce", "orders"), ("health",)])
def test_advertised_name_that_is_not_in_the_certificate_is_named(
    call: Command, secured: Secured, advertising: str, words: tuple[str, ...]
) -> None:
    settings = [f"-X{name}={value}" for name, value in secured.tls("SSL").items()]
    shown = call(*words, "-b", advertising, "-m", str(WAIT_S), *settings, stdin=b"one\n")
    assert shown.status == 1
    assert "its certificate does not have the name localhost" in shown.err + shown.out
