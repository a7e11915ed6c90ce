from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import ssl
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from broker.network.connection import Connection
from broker.security.listener_security import METRICS
from broker.security.sasl_dispatcher import SaslDispatcher
from broker.security.sasl_mechanisms import AuthenticationError
from broker.security.scram import ScramServer
from broker.security.security_error import SecurityError
from controller.delegation_tokens import TokenHmacs
from controller.image import MetadataImage, ResourceType
from controller.image_builder import apply_records
from protocol.records.metadata import ConfigRecord
from tests.certificates import Certificates
from tests.tokens import IdentityProvider
from tests.typed import present
from tests.unit.broker.security.secured import listener_security


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def test_listeners_with_tls_have_contexts_and_the_others_none(certificates: Certificates) -> None:
    settings = {
        "listeners": "INSIDE://:1,OPEN://:2,CONTROLLER://:3",
        "listener.security.protocol.map": "INSIDE:SSL,OPEN:PLAINTEXT,CONTROLLER:SSL",
        "controller.listener.names": "CONTROLLER",
    }
    security, _ = listener_security(**settings, **certificates.broker_settings())
    security.load(["INSIDE", "CONTROLLER"])
    assert [security.tls_of(name) is not None for name in ("INSIDE", "OPEN", "CONTROLLER")] == [True, False, True]
    assert [security.client_context(name) is not None for name in ("INSIDE", "OPEN", "CONTROLLER")] == [
        True,
        False,
        True,
    ]


def test_own_settings_of_a_listener_precede_the_brokers(certificates: Certificates, tmp_path: Path) -> None:
    settings = certificates.broker_settings() | {"listeners": "SSL://:1"}
    missing = {"listener.name.ssl.ssl.keystore.location": str(tmp_path / "missing.pem")}
    with pytest.raises(SecurityError, match=r"^listener SSL: ssl.keystore.location=.*missing.pem: .*No such file"):
        listener_security(**settings, **missing)[0].load([])


def test_altered_settings_apply_to_new_connections_and_invalid_ones_are_logged(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    security, dynamic_config = listener_security(listeners="SSL://:1", **certificates.broker_settings())
    security.load(["SSL"])
    tls = security.tls_of("SSL")
    assert tls is not None
    first, of_nodes = tls.context, security.client_context("SSL")
    image = MetadataImage(cluster_id="c")

    def alter(location: str) -> None:
        nonlocal image
        record = ConfigRecord(
            resource_type=ResourceType.BROKER,
            resource_name="1",
            name="listener.name.ssl.ssl.keystore.location",
            value=location,
        )
        before, image = image, apply_records(image, [record], offset=image.offset + 1, epoch=1)
        dynamic_config.apply(before, image, [record])

    os.mkfifo(tmp_path / "pipe")  # nothing writes to it: opening it would wait for ever
    for location, why in ((tmp_path / "missing.pem", "No such file"), (tmp_path / "pipe", "not a regular file")):
        caplog.clear()
        alter(str(location))
        assert tls.context is first
        assert "the old ones stay in use" in caplog.text
        assert why in caplog.text
    alter(str(certificates.issue("renewed", "127.0.0.1", "localhost", "::1")))
    assert tls.context is not first
    assert security.client_context("SSL") is not of_nodes


def test_changed_file_is_read_again(certificates: Certificates) -> None:
    security, _ = listener_security(listeners="SSL://:1", **certificates.broker_settings())
    security.load([])
    tls = security.tls_of("SSL")
    assert tls is not None
    first = tls.context
    asyncio.run(security.reload_if_changed())
    assert tls.context is first
    certificates.issue("broker", "127.0.0.1", "localhost", "::1")
    os.utime(certificates.broker, (1, 1))
    asyncio.run(security.reload_if_changed())
    assert tls.context is not first


def test_altered_setting_and_its_file_are_read_once(certificates: Certificates) -> None:
    name = "ssl.truststore.location"
    settings = certificates.broker_settings()
    record = ConfigRecord(
        resource_type=ResourceType.BROKER, resource_name="1", name=f"listener.name.ssl.{name}", value=settings.pop(name)
    )
    security, dynamic_config = listener_security(listeners="SSL://:1", **settings)
    security.load([])
    tls, before = present(security.tls_of("SSL")), MetadataImage(cluster_id="c")
    dynamic_config.apply(before, apply_records(before, [record], offset=1, epoch=1), [record])
    altered = tls.context
    asyncio.run(security.reload_if_changed())
    assert tls.context is altered
    os.utime(certificates.trusted, (1, 1))
    asyncio.run(security.reload_if_changed())
    assert tls.context is not altered


def test_invalid_file_is_logged_once(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    security, _ = listener_security(listeners="SSL://:1", **certificates.broker_settings())
    security.load([])
    certificates.broker.write_text("half a file")
    os.utime(certificates.broker, (1, 1))
    for _ in range(2):
        asyncio.run(security.reload_if_changed())
    assert caplog.text.count("the old ones stay in use") == 1


def test_jaas_setting_of_all_listeners_is_not_read_if_none_uses_it() -> None:
    security, _ = listener_security(**{"sasl.jaas.config": "secret"})  # Apache Kafka accepts it, too
    security.load([])


def test_jaas_setting_that_cannot_be_read_is_refused_whatever_its_listener() -> None:
    name = "listener.name.other.plain.sasl.jaas.config"
    security, _ = listener_security(**{name: 'org.example.Module required password="hidden"'})
    with pytest.raises(SecurityError, match=f"^{name}: .* with ; at the end") as refused:
        security.load([])
    assert "hidden" not in str(refused.value)


def test_without_tls_nothing_is_read() -> None:
    security, _ = listener_security()
    security.load(["PLAINTEXT"])
    assert (security.tls_of("PLAINTEXT"), security.client_context("PLAINTEXT")) == (None, None)
    assert not security.has_tls


def test_client_certificates_beside_sasl_are_verified_only_if_the_listener_says_so(certificates: Certificates) -> None:
    module = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";'
    settings = certificates.broker_settings() | {
        "listeners": "SASL_SSL://:1",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": module,
    }
    for name, verified in (("ssl.client.auth", False), ("listener.name.sasl_ssl.ssl.client.auth", True)):
        security, _ = listener_security(**settings, **{name: "required"})
        security.load([])
        tls = security.tls_of("SASL_SSL")
        assert tls is not None
        assert (tls.context.verify_mode is ssl.CERT_REQUIRED) is verified


def test_certificate_that_other_nodes_would_refuse_is_refused_at_the_listener_of_nodes(
    certificates: Certificates, tmp_path: Path
) -> None:
    (tmp_path / "others").mkdir()
    foreign = {"ssl.truststore.location": str(Certificates(tmp_path / "others").trusted)}
    settings = {"listeners": "SSL://:1"} | certificates.broker_settings() | foreign
    with pytest.raises(SecurityError, match=r"^listener SSL: ssl.keystore.location=.*refuses its own certificate"):
        listener_security(**settings)[0].load(["SSL"])
    listener_security(**settings)[0].load([])  # only clients connect to it


@pytest.mark.parametrize("listeners", ["SSL://:1", "PLAINTEXT://:1"])
def test_expired_certificate_is_refused_for_clients_and_for_nodes(certificates: Certificates, listeners: str) -> None:
    expired = certificates.issue("expired", "127.0.0.1", expires=datetime.now(UTC) - timedelta(days=2))
    settings = certificates.broker_settings(ssl_keystore_location=str(expired)) | {"listeners": listeners}
    security, _ = listener_security(round(datetime.now(UTC).timestamp() * 1000), **settings)
    with pytest.raises(
        SecurityError, match=r"^listener SSL: ssl.keystore.location=.*expired.pem: the certificate expired"
    ):
        security.load([] if listeners == "SSL://:1" else ["SSL"])


LOGIN = "org.apache.kafka.common.security.{}LoginModule required username='node' password='secret';"
PLAIN, SCRAM = LOGIN.format("plain.Plain"), LOGIN.format("scram.Scram")
SASL = {
    "listeners": "SASL_PLAINTEXT://:1,CONTROLLER://:2",
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": PLAIN,
    "listener.name.controller.scram-sha-256.sasl.jaas.config": SCRAM,
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": SCRAM,
}
CONTROLLERS = {"controller.quorum.voters": "0@127.0.0.1:2,1@127.0.0.1:3", "node.id": "0"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"sasl.mechanism.inter.broker.protocol": "GSSAPI"},
            "listener SASL_PLAINTEXT: sasl.mechanism.inter.broker.protocol=GSSAPI: GSSAPI, the default, is not",
        ),
        (
            {"listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN"},
            "SCRAM-SHA-256 is not in sasl.enabled.mechanisms=PLAIN: other nodes would refuse it",
        ),
        (
            {"sasl.mechanism.controller.protocol": "SCRAM-SHA-256", **CONTROLLERS},
            "listener CONTROLLER: sasl.mechanism.controller.protocol=SCRAM-SHA-256: controllers cannot log in",
        ),
    ],
)
def test_logins_that_other_nodes_would_refuse_are_refused_at_the_start(changed: dict[str, str], message: str) -> None:
    for accepted in ({}, CONTROLLERS, {"sasl.mechanism.controller.protocol": "SCRAM-SHA-256"}):
        listener_security(**SASL | accepted)[0].load(["SASL_PLAINTEXT", "CONTROLLER"])
    with pytest.raises(SecurityError, match=message):
        listener_security(**SASL | changed)[0].load(["SASL_PLAINTEXT", "CONTROLLER"])


@pytest.mark.parametrize("client_auth", ["none", "requested", "required"])
def test_client_certificates_of_any_public_authority_are_warned_of(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, client_auth: str
) -> None:
    settings = {"listeners": "SSL://127.0.0.1:1", "ssl.client.auth": client_auth} | certificates.broker_settings()
    listener_security(**settings)[0].load([])
    assert caplog.messages == []
    listener_security(**{name: text for name, text in settings.items() if "truststore" not in name})[0].load([])
    assert [message.partition(":")[0] for message in caplog.messages] == ["listener SSL"] * (client_auth != "none")


def test_each_login_has_a_new_nonce_from_the_random_numbers_of_the_node() -> None:
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    settings = {
        "listeners": "SASL_PLAINTEXT://:1",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f'{scram} username="node" password="own";',
    }

    def messages() -> list[bytes]:
        security, _ = listener_security(**settings)
        return [present(security.login("broker", "SASL_PLAINTEXT"))[1].first() for _ in range(2)]

    first, second = messages()
    assert re.fullmatch(rb"n,,n=node,r=[0-9a-f]{48}", first)
    assert first != second
    assert messages() == [first, second]


def names_warned_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the hosts in the warnings that a certificate is not valid for them."""
    pattern = r"listener SSL: the certificate is not valid for the advertised host (\S+): "
    found = (re.match(pattern, one) for one in caplog.messages)
    return [match[1] for match in found if match]


@pytest.mark.parametrize("client_auth", ["none", "required"])
@pytest.mark.parametrize(
    ("listeners", "advertised", "warned"),
    [
        ("SSL://127.0.0.1:1", None, []),
        ("SSL://127.0.0.1:1", "SSL://localhost:1", []),
        ("SSL://[::1]:1", None, []),
        ("SSL://:1", "SSL://broker.example.com:1", ["broker.example.com"]),
        ("SSL://:1", "SSL://127.0.0.2:1", ["127.0.0.2"]),
        ("SSL://:1", None, [socket.gethostname()]),
        ("SSL://:1", f"SSL://{'a' * 64}:1", ["a" * 64]),
    ],
)
def test_certificate_without_the_advertised_host_is_logged(
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
    client_auth: str,
    listeners: str,
    advertised: str | None,
    warned: list[str],
) -> None:
    settings = {"listeners": listeners, "ssl.client.auth": client_auth} | certificates.broker_settings()
    if advertised is not None:
        settings["advertised.listeners"] = advertised
    listener_security(**settings)[0].load(["SSL"])
    assert names_warned_of(caplog) == warned
    caplog.clear()
    listener_security(**settings, **{"ssl.endpoint.identification.algorithm": ""})[0].load(["SSL"])
    assert names_warned_of(caplog) == []


def test_check_of_an_alteration_does_not_warn(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    security, _ = listener_security(listeners="SSL://127.0.0.2:1", **certificates.broker_settings())
    security.check(["SSL"])
    assert names_warned_of(caplog) == []
    security.load(["SSL"])
    assert names_warned_of(caplog) == ["127.0.0.2"]


def test_key_store_that_changes_again_at_once_is_not_warned_of(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    security, _ = listener_security(listeners="SSL://127.0.0.2:1", **certificates.broker_settings())
    security.load([])
    caplog.clear()
    warn = security._warn_of_names

    def warn_of_others() -> None:
        certificates.broker.write_text("half a file")
        warn()

    monkeypatch.setattr(security, "_warn_of_names", warn_of_others)
    security.reload()
    assert names_warned_of(caplog) == []


def test_renewed_certificate_without_the_advertised_host_is_logged(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    security, _ = listener_security(
        listeners="SSL://127.0.0.1:1", **certificates.broker_settings(), **{"ssl.allow.san.changes": "true"}
    )
    security.load([])
    certificates.broker.write_bytes(certificates.issue("other", "other.example.com").read_bytes())
    security.reload()
    assert names_warned_of(caplog) == ["127.0.0.1"]


ISSUER, AUDIENCE = "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.expected.audience"


@pytest.mark.parametrize(
    ("settings", "warnings"),
    [
        ({}, [f"listener INSIDE: tokens that are for other services are accepted. Set {ISSUER} and {AUDIENCE}"]),
        ({ISSUER: "i"}, [f"listener INSIDE: tokens that are for other services are accepted. Set {AUDIENCE}"]),
        (
            {"listener.name.inside." + AUDIENCE: "a"},
            [f"listener INSIDE: tokens of other issuers with the same keys are accepted. Set {ISSUER}"],
        ),
        ({ISSUER: "i", AUDIENCE: "a"}, []),
    ],
)
def test_start_that_accepts_tokens_of_anyone_logs_a_warning_and_a_check_does_not(
    settings: dict[str, str], warnings: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    oauth = {
        "listeners": "INSIDE://:1",
        "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": IdentityProvider().write(tmp_path / "keys.json"),
    }
    security, _ = listener_security(**oauth | settings)
    security.load([])
    assert caplog.messages == []

    async def start() -> None:
        await security.load_token_keys(asyncio.get_running_loop())

    asyncio.run(start())
    assert [record.getMessage() for record in caplog.records if record.name == "broker.security"] == warnings


@pytest.mark.parametrize(
    ("client_auth", "mode"),
    [("none", ssl.CERT_NONE), ("requested", ssl.CERT_OPTIONAL), ("required", ssl.CERT_REQUIRED)],
)
def test_client_certificates_of_a_listener_without_sasl_are_verified_as_the_broker_says(
    certificates: Certificates, client_auth: str, mode: ssl.VerifyMode
) -> None:
    settings = certificates.broker_settings() | {"listeners": "SSL://:1", "ssl.client.auth": client_auth}
    security, _ = listener_security(**settings)
    security.load([])
    assert present(security.tls_of("SSL")).context.verify_mode is mode


def test_invalid_mapping_rule_of_principals_is_refused_at_the_start(certificates: Certificates) -> None:
    settings = certificates.broker_settings() | {"listeners": "SSL://:1"}
    security, _ = listener_security(**settings, **{"ssl.principal.mapping.rules": "RULE:(/x/"})
    with pytest.raises(SecurityError, match=r"^listener SSL: ssl.principal.mapping.rules: invalid rule"):
        security.load([])


@pytest.mark.parametrize("protocol", ["SSL", "PLAINTEXT", None])
def test_address_for_metrics_has_tls_if_its_protocol_says_so(certificates: Certificates, protocol: str | None) -> None:
    settings = certificates.broker_settings() | {"barnabas.metrics.security.protocol": protocol or "SSL"}
    if protocol is not None:
        settings["barnabas.metrics.listener"] = "127.0.0.1:0"
    security, _ = listener_security(**settings)
    security.load([])
    assert (security.tls_of(METRICS) is not None) == (protocol == "SSL")


SASL_NODE = {
    "listeners": "SASL_PLAINTEXT://:1,PLAINTEXT://:2,CONTROLLER://:3",
    "listener.security.protocol.map": ("SASL_PLAINTEXT:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"),
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
}
NODE_LOGIN = 'org.apache.kafka.common.security.{0} required username="node" password="own" user_a="b";'
OF_BROKERS = "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config"
OF_CONTROLLERS = "listener.name.controller.plain.sasl.jaas.config"
LOGINS = {
    OF_BROKERS: NODE_LOGIN.format("scram.ScramLoginModule"),
    OF_CONTROLLERS: NODE_LOGIN.format("plain.PlainLoginModule"),
}


def test_node_logs_in_by_the_mechanism_of_brokers_or_of_controllers_and_only_where_that_is_needed() -> None:
    security, _ = listener_security(**SASL_NODE, **LOGINS)
    security.load(["SASL_PLAINTEXT", "PLAINTEXT", "CONTROLLER"])
    names = [
        present(security.login(role, name))[0]
        for role, name in (("broker", "SASL_PLAINTEXT"), ("controller", "CONTROLLER"))
    ]
    assert names == ["SCRAM-SHA-256", "PLAIN"]
    assert security.login("broker", "PLAINTEXT") is None


@pytest.mark.parametrize("setting", [OF_BROKERS, OF_CONTROLLERS])
def test_login_without_a_user_of_the_node_is_refused_at_the_start(setting: str) -> None:
    without = LOGINS | {setting: LOGINS[setting].replace('username="node" ', "")}
    listener = "CONTROLLER" if setting == OF_CONTROLLERS else "SASL_PLAINTEXT"
    listener_security(**SASL_NODE, **without)[0].load([])
    with pytest.raises(SecurityError, match=f"^listener {listener}: sasl.mechanism.*: {setting}: username is missing"):
        listener_security(**SASL_NODE, **without)[0].load([listener])


def test_clients_authenticate_before_the_dispatcher_within_their_first_limit() -> None:
    settings = SASL_NODE | {
        "listener.name.sasl_plaintext.sasl.server.max.receive.size": "12345",
        "connection.failed.authentication.delay.ms": "250",
    }
    security, _ = listener_security(**settings, **LOGINS)
    security.load([])

    async def check() -> None:
        loop = asyncio.get_running_loop()
        for name in ("PLAINTEXT", "CONTROLLER", "SASL_PLAINTEXT"):
            dispatch, max_bytes = security.behind_sasl(name, first, loop)
            assert (dispatch is first, max_bytes) == (
                (True, None) if name == "PLAINTEXT" else (False, 12345 if name == "SASL_PLAINTEXT" else 524_288)
            )
            assert security.dispatch_with(name, second) == (name != "PLAINTEXT")
            assert (name in security.authentications) == (name != "PLAINTEXT")
        assert isinstance(dispatch, SaslDispatcher)
        assert dispatch._failure_delay_s == 0.25
        assert dispatch._dispatch is second

    def first(_frame: memoryview, _connection: Connection) -> None: ...
    def second(_frame: memoryview, _connection: Connection) -> None: ...

    asyncio.run(check())


def test_all_listeners_authenticate_by_the_same_tokens() -> None:
    hmacs = TokenHmacs("secret")
    security, _ = listener_security(
        0, hmacs, **SASL_NODE | {"sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"}, **LOGINS
    )
    security.load([])
    servers = [
        security._sasl_options[name].new_mechanism(mechanism)
        for name in ("SASL_PLAINTEXT", "CONTROLLER")
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    ]
    assert len({server._tokens for server in servers if isinstance(server, ScramServer)}) == 1
    salt = b64encode(hmacs.derive("SCRAM-SHA-256 salt of id")[:24])
    assert b",s=" + salt + b"," in servers[0].respond(b"n,,n=id,r=client,tokenauth=true")
    without, _ = listener_security(**SASL_NODE, **LOGINS)
    without.load([])
    server = without._sasl_options["CONTROLLER"].new_mechanism("SCRAM-SHA-256")
    assert isinstance(server, ScramServer)
    assert server._tokens is None


def test_keys_of_tokens_are_read_again_only_when_they_are_due(tmp_path: Path) -> None:
    url = IdentityProvider("first").write(tmp_path / "keys.json")
    settings = SASL_NODE | {
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": url,
    }
    security, _ = listener_security(**settings, **LOGINS)
    security.load([])
    (jwks,) = security.token_keys
    now_s = 0.0

    async def check() -> None:
        nonlocal now_s
        loop = asyncio.get_running_loop()
        loop.time = lambda: now_s  # type: ignore[method-assign]
        await security.load_token_keys(loop)
        IdentityProvider("second").write(tmp_path / "keys.json")
        for passed_s, kid in ((4.9, "first"), (5.0, "second")):
            now_s = passed_s
            await security.refresh_token_keys(loop)
            assert [key.kid for key in jwks.keys().keys] == [kid]

    asyncio.run(check())


def test_altered_login_module_that_is_invalid_leaves_the_last_valid_one_in_use(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """This node's controllers refuse such an alteration; those of other programs may not."""
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    security, dynamic_config = listener_security(
        **{
            "listeners": "SASL_PLAINTEXT://:1",
            "sasl.enabled.mechanisms": "PLAIN",
            name: f'{plain} user_alice="first";',
        }
    )
    security.load([])
    image = MetadataImage(cluster_id="c")

    def alter(text: str | None) -> list[str]:
        nonlocal image
        caplog.clear()
        record = ConfigRecord(resource_type=ResourceType.BROKER, resource_name="1", name=name, value=text)
        before, image = image, apply_records(image, [record], offset=1, epoch=1)
        dynamic_config.apply(before, image, [record])
        return [line.getMessage() for line in caplog.records]

    def is_accepted(password: str) -> bool:
        mechanism = security._sasl_options["SASL_PLAINTEXT"].new_mechanism("PLAIN")
        with contextlib.suppress(AuthenticationError):
            mechanism.respond(f"\0alice\0{password}".encode())
        return mechanism.user == "alice"

    assert is_accepted("first")
    assert alter(f'{plain} user_alice="second";') == []
    (line,) = alter('this is no jaas "hidden"')
    assert line.startswith(f"A new login module is invalid; the old one stays in use: {name}: ")
    assert "hidden" not in line
    assert [is_accepted("first"), is_accepted("second")] == [False, True]
    assert alter("com.example.Login required;") == [
        f"A new login module is invalid; the old one stays in use: {name}: the login module of PLAIN is {plain[:-9]}"
    ]
    caplog.clear()
    assert [is_accepted("first"), is_accepted("second")] == [False, True]
    assert caplog.records == []
    assert alter(f'{plain} user_alice="third";') == []
    assert [is_accepted("second"), is_accepted("third")] == [False, True]


def test_login_module_that_is_removed_is_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    security, dynamic_config = listener_security(
        **{"listeners": "SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms": "PLAIN"}
    )
    added = ConfigRecord(resource_type=ResourceType.BROKER, resource_name="1", name=name, value=f"{plain};")
    before = apply_records(MetadataImage(cluster_id="c"), [added], offset=1, epoch=1)
    dynamic_config.load(before)
    security.load([])
    for text in (None, "this is no jaas"):
        record = ConfigRecord(resource_type=ResourceType.BROKER, resource_name="1", name=name, value=text)
        image = apply_records(before, [record], offset=2, epoch=1)
        dynamic_config.apply(before, image, [record])
        before = image
        with pytest.raises(SecurityError, match=f"^{name}"):
            security._sasl_options["SASL_PLAINTEXT"].new_mechanism("PLAIN")
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"A login module was removed: {name} is not set")
