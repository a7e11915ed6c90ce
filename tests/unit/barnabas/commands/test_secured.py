from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.commands._output import CommandError, WrongCall
from barnabas.commands._secured import secured
from tests.certificates import Certificates
from tests.unit.barnabas.conftest import Command


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "requires a login: set sasl.mechanism, user and password"),
        ({"sasl_mechanism": "PLAIN", "sasl_plain_username": "alice"}, "requires user and password: set sasl.jaas"),
        ({"sasl_mechanism": "OAUTHBEARER"}, "the commands log in by PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
    ],
)
def test_incomplete_login_is_a_wrong_call(settings: dict[str, str], message: str) -> None:
    with pytest.raises(WrongCall, match=message):
        secured({"security_protocol": "SASL_PLAINTEXT", **settings})


def test_connections_without_tls_have_no_context() -> None:
    assert secured({}) == {}
    login = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "alice", "sasl_plain_password": "right"}
    assert secured({"security_protocol": "SASL_PLAINTEXT", **login}) == {}


def test_context_checks_names_unless_told_otherwise(certificates: Certificates) -> None:
    settings = {"security_protocol": "SSL", "ssl_cafile": str(certificates.trusted)}
    assert secured(settings)["ssl_context"].check_hostname
    assert not secured({**settings, "ssl_check_hostname": False})["ssl_context"].check_hostname


@pytest.mark.parametrize(
    ("setting", "content", "message"),
    [
        ("ssl_cafile", None, "CA file {}: no such file or directory"),
        ("ssl_cafile", "PEM", "CA file {}: it has no certificates in PEM format"),
        ("ssl_crlfile", None, "revocation list {}: no such file or directory"),
        ("ssl_certfile", None, "key store {}: no such file or directory"),
        ("ssl_certfile", "PEM", "key store {}: it has no certificate with its private key in PEM format"),
        ("ssl_keyfile", None, "key file {}: no such file or directory"),
    ],
)
def test_file_that_cannot_be_used_is_named(
    certificates: Certificates, tmp_path: Path, setting: str, content: str | None, message: str
) -> None:
    path = tmp_path / "file.pem"
    if content is not None:
        path.write_text(content)
    own = {"ssl_cafile": str(certificates.trusted), "ssl_certfile": str(certificates.alice), setting: str(path)}
    with pytest.raises(CommandError) as refused:
        secured({"security_protocol": "SSL", **own})
    assert str(refused.value) == message.format(path)


def test_missing_file_is_named_before_a_connection(call: Command) -> None:
    settings = ("-Xsecurity.protocol=SSL", "-Xssl.ca.location=/no/such")
    shown = call("topic", "list", "-b", "no.such.host.invalid:1", *settings)
    assert shown == (1, "", "barnabas topic list: CA file /no/such: no such file or directory\n")
