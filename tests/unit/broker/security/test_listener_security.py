from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random

import pytest

from broker.metadata.dynamic_config import DynamicConfig
from broker.security.listener_security import ListenerSecurity
from broker.security.security_error import SecurityError
from broker.settings import Option, check_settings
from controller.image import MetadataImage, ResourceType
from controller.image_builder import apply_records
from protocol.records.metadata import ConfigRecord
from storage.disk import UnsyncedDisk
from tests.certificates import Certificates
from tests.tokens import IdentityProvider
from tests.typed import present


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def listener_security(now_ms: int = 0, /, **settings: str) -> tuple[ListenerSecurity, DynamicConfig]:
    dynamic_config = DynamicConfig(check_settings({name: Option(text, "test") for name, text in settings.items()}))
    return ListenerSecurity(
        dynamic_config.start,
        dynamic_config,
        UnsyncedDisk(),
        partial(MetadataImage, cluster_id="c"),
        lambda: now_ms,
        None,
        Random(1),
    ), dynamic_config


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
    alter(str(certificates.alice))
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
    certificates.broker.write_bytes(certificates.alice.read_bytes())
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
    assert first.startswith(b"n,,n=node,r=")
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
    security, _ = listener_security(listeners="SSL://127.0.0.1:1", **certificates.broker_settings())
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
