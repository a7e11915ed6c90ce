"""Contexts by their handshakes in memory."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from broker.security.security_error import SecurityError
from broker.security.ssl_contexts import (
    NodeEnds,
    check_beside,
    check_not_expired,
    check_own_certificate,
    client_context,
    node_ends,
    server_context,
)
from controller.configs import BROKER_CONFIGS, parse_value
from storage.disk import UnsyncedDisk
from tests.certificates import Certificates, encrypted_pem, plain_pem


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def lookup(settings: dict[str, str]) -> Any:
    """Return parsed values, Kafka's defaults below `settings`."""
    return lambda name: parse_value(BROKER_CONFIGS[name], settings.get(name, BROKER_CONFIGS[name].default))


def server(settings: dict[str, str], client_auth: str = "none") -> ssl.SSLContext:
    return server_context(lookup(settings), UnsyncedDisk(), client_auth)


def client(settings: dict[str, str]) -> ssl.SSLContext:
    return client_context(lookup(settings), UnsyncedDisk())


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "127.0.0.1") -> ssl.SSLObject:
    """Return the server's side of a completed handshake."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert sides[1].version()
    return sides[1]


def test_client_trusts_the_authority_and_verifies_the_host_name(certificates: Certificates) -> None:
    settings = certificates.broker_settings()
    assert shake_hands(server(settings), client(settings)).version() == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(server(settings), client(settings), "elsewhere")
    unchecked = settings | {"ssl.endpoint.identification.algorithm": ""}
    assert shake_hands(server(settings), client(unchecked), "elsewhere").version()


def test_certificate_of_an_unknown_authority_is_refused(certificates: Certificates, tmp_path: Path) -> None:
    others = Certificates(tmp_path).broker_settings()
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server(certificates.broker_settings()), client(others))


def test_required_client_certificate_is_verified(certificates: Certificates, tmp_path: Path) -> None:
    settings = certificates.broker_settings()
    trusting = {name: value for name, value in settings.items() if "truststore" in name}
    required = server(settings, "required")
    assert shake_hands(required, client(settings)).getpeercert()
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake_hands(required, client(trusting))
    assert shake_hands(server(settings, "requested"), client(trusting)).getpeercert() is None
    foreign = trusting | {
        name: value for name, value in Certificates(tmp_path).broker_settings().items() if "keystore" in name
    }
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server(settings, "requested"), client(foreign))


def test_any_trusted_certificate_ends_a_chain() -> None:
    key, chain = plain_pem()
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key,
        "ssl.keystore.certificate.chain": chain,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": chain,
        "ssl.endpoint.identification.algorithm": "",
    }
    assert shake_hands(server(settings, "required"), client(settings)).getpeercert()


def test_encrypted_key_needs_its_password(tmp_path: Path) -> None:
    (tmp_path / "store.pem").write_text(encrypted_pem("open sesame"))
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "store.pem")}
    assert server(settings | {"ssl.key.password": "open sesame"})
    with pytest.raises(SecurityError, match=r"the private key is encrypted; set ssl.key.password"):
        server(settings)
    with pytest.raises(SecurityError, match=r"ssl.key.password is wrong"):
        server(settings | {"ssl.key.password": "another"})


def test_versions_and_cipher_suites_are_those_of_the_settings(certificates: Certificates) -> None:
    settings = certificates.broker_settings()
    older = settings | {"ssl.enabled.protocols": "TLSv1.2"}
    assert shake_hands(server(older), client(settings)).version() == "TLSv1.2"
    documented = settings | {"ssl.enabled.protocols": "TLSv1.2,TLSv1.1,TLSv1"}  # Kafka's documentation
    assert server(documented).minimum_version == server(documented).maximum_version == ssl.TLSVersion.TLSv1_2
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    restricted = shake_hands(server(settings | {"ssl.cipher.suites": suite}), client(settings))
    assert restricted.cipher() == ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2", 128)
    newest = "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"
    assert shake_hands(server(settings | {"ssl.cipher.suites": newest}), client(settings)).version() == "TLSv1.3"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ssl.enabled.protocols": "TLSv1.2,SSLv3"}, "supported are TLSv1.2 and TLSv1.3"),
        ({"ssl.enabled.protocols": ""}, "supported are TLSv1.2 and TLSv1.3"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "supported are TLSv1.2 and TLSv1.3"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "cannot be selected one by one"),
        ({"ssl.cipher.suites": "TLS_NULL_WITH_NOTHING"}, "TLS_NULL_WITH_NOTHING is unknown"),
        (
            {"ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA", "ssl.enabled.protocols": "TLSv1.3"},
            "none of them is for TLSv1.3",
        ),
        ({"ssl.keystore.location": None}, "needs a certificate: set ssl.keystore.type=PEM"),
    ],
)
def test_invalid_settings_are_refused(certificates: Certificates, settings: dict[str, Any], message: str) -> None:
    given = {**certificates.broker_settings(), **settings}
    with pytest.raises(SecurityError, match=message):
        server({name: value for name, value in given.items() if value is not None})


def test_certificate_of_a_key_of_another_type_is_refused() -> None:
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    rsa = authority.issue_cert("broker", key_type=trustme.KeyType.RSA)
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": plain_pem()[0],
        "ssl.keystore.certificate.chain": rsa.cert_chain_pems[0].bytes().decode(),
    }
    with pytest.raises(SecurityError, match=r"^ssl.keystore.key: the certificate belongs to another private key$"):
        server(settings)


def test_certificate_that_is_not_valid_yet_is_refused_with_that_reason(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    later = certificates.issue("later", "127.0.0.1", begins=datetime.now(UTC) + timedelta(days=1))
    settings = certificates.broker_settings() | {"ssl.keystore.location": str(later)}
    with pytest.raises(SecurityError, match=r"certificate is not yet valid; .* Is the clock right\?$"):
        check_own_certificate(server(settings), lookup(settings), UnsyncedDisk())


def test_certificate_of_another_key_is_refused() -> None:
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": plain_pem()[0],
        "ssl.keystore.certificate.chain": plain_pem()[1],
    }
    why = "the certificate belongs to another private key, or the key is damaged"
    with pytest.raises(SecurityError, match=f"^ssl.keystore.key: {why}$"):
        server(settings)
    damaged = settings["ssl.keystore.certificate.chain"].replace("MII", "MIJ", 1)
    with pytest.raises(SecurityError, match=r"^ssl.keystore.key: the certificate is damaged$"):
        server(settings | {"ssl.keystore.certificate.chain": damaged})
    encrypted = settings | {"ssl.keystore.key": encrypted_pem("secret"), "ssl.key.password": "other"}
    with pytest.raises(SecurityError, match=f"^ssl.keystore.key: ssl.key.password is wrong, {why}$"):
        server(encrypted)


def expired(certificates: Certificates) -> dict[str, str]:
    """Return the settings of a broker whose certificate expired 2 days ago."""
    path = certificates.issue("expired", "127.0.0.1", expires=datetime.now(UTC) - timedelta(days=2))
    return certificates.broker_settings() | {"ssl.keystore.location": str(path)}


def test_an_expired_certificate_of_a_listener_is_refused_with_its_file_and_day(certificates: Certificates) -> None:
    settings = expired(certificates)
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    day = (datetime.now(UTC) - timedelta(days=2)).date()
    why = f"^ssl.keystore.location={settings['ssl.keystore.location']}: the certificate expired on {day}: replace it"
    with pytest.raises(SecurityError, match=why):
        check_not_expired(lookup(settings), UnsyncedDisk(), now_ms)
    check_not_expired(lookup(settings), UnsyncedDisk(), now_ms - 3 * 86_400_000)
    check_not_expired(lookup(certificates.broker_settings()), UnsyncedDisk(), now_ms)
    check_not_expired(lookup({}), UnsyncedDisk(), now_ms)


def test_a_node_checks_that_it_trusts_its_own_certificate(certificates: Certificates, tmp_path: Path) -> None:
    own, others = certificates.broker_settings(), Certificates(tmp_path).broker_settings()
    foreign = own | {name: value for name, value in others.items() if "truststore" in name}
    check_own_certificate(server(own, "required"), lookup(own), UnsyncedDisk())
    with pytest.raises(SecurityError, match=r"^ssl.keystore.location=.*refuses its own certificate.*truststore"):
        check_own_certificate(server(foreign), lookup(foreign), UnsyncedDisk())
    without = {name: value for name, value in own.items() if "truststore" not in name}
    check_own_certificate(server(without), lookup(without), UnsyncedDisk())  # it trusts the authorities of the system


def test_nodes_with_old_and_new_settings_can_connect_to_each_other(certificates: Certificates, tmp_path: Path) -> None:
    others = Certificates(tmp_path)

    def ends(settings: dict[str, str]) -> NodeEnds | None:
        return node_ends(server(settings, "required"), lookup(settings), UnsyncedDisk())

    (tmp_path / "both.pem").write_bytes(certificates.trusted.read_bytes() + others.trusted.read_bytes())
    both = {"ssl.truststore.location": str(tmp_path / "both.pem")}
    old, new = certificates.broker_settings(), others.broker_settings()
    for before, after in ((old, old), (old, old | both), (old | both, new | both), (new | both, new)):
        check_beside(ends(before), ends(after))
    for before, after in ((old, new), (old | both, new), (old, new | both)):
        with pytest.raises(SecurityError, match=r"could not connect to each other: .* first trust both authorities"):
            check_beside(ends(before), ends(after))
    without = {name: value for name, value in old.items() if "truststore" not in name}
    check_beside(ends(without), ends(new))
    check_beside(ends(expired(certificates)), ends(old))  # nodes could not connect before either


def test_a_node_without_a_version_in_common_with_itself_is_refused(certificates: Certificates) -> None:
    older, newer = (certificates.broker_settings(ssl_enabled_protocols=name) for name in ("TLSv1.2", "TLSv1.3"))
    with pytest.raises(SecurityError, match="could not connect to this one"):
        check_own_certificate(server(older), lookup(newer), UnsyncedDisk())


def test_any_trusted_certificate_ends_a_chain_of_an_authority_too(certificates: Certificates) -> None:
    settings = certificates.broker_settings()
    trusting = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificates.broker.read_text()}
    assert shake_hands(server(settings), client(trusting)).version()


def test_authorities_of_the_system_are_trusted_without_a_trust_store(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.trusted))
    assert shake_hands(server(certificates.broker_settings()), client({})).version()


def test_damaged_trusted_certificates_are_refused() -> None:
    damaged = plain_pem()[1].replace("MII", "MIJ", 1)
    with pytest.raises(SecurityError, match=r"^the trusted certificates are damaged: "):
        client({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": damaged})


def test_contexts_allow_no_renegotiation_and_no_compression(certificates: Certificates) -> None:
    """CVE-2011-1473 and CVE-2012-4929."""
    settings = certificates.broker_settings()
    for context in (server(settings), client(settings)):
        assert context.options & ssl.OP_NO_RENEGOTIATION
        assert context.options & ssl.OP_NO_COMPRESSION


def test_suites_of_one_version_allow_no_other_version(certificates: Certificates) -> None:
    settings = certificates.broker_settings()
    newest = "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"
    restricted = server(settings | {"ssl.cipher.suites": newest})
    assert restricted.minimum_version == restricted.maximum_version == ssl.TLSVersion.TLSv1_3
    with pytest.raises(ssl.SSLError):
        shake_hands(restricted, client(settings | {"ssl.enabled.protocols": "TLSv1.2"}))
    older = server(settings | {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"})
    assert older.maximum_version == ssl.TLSVersion.TLSv1_2


def test_suites_have_the_names_of_the_standard_and_all_listed_are_allowed(certificates: Certificates) -> None:
    names = {
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
        "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256": "DHE-RSA-AES128-SHA256",
    }
    restricted = server(certificates.broker_settings() | {"ssl.cipher.suites": ",".join(names)})
    allowed = [suite["name"] for suite in restricted.get_ciphers() if not suite["name"].startswith("TLS_")]
    assert allowed == list(names.values())


def test_certificates_that_do_not_fit_into_a_pipe_are_refused(certificates: Certificates) -> None:
    text = certificates.broker.read_text()
    chain = text[text.index("-----BEGIN CERT") :]
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.key": text[: text.index("-----BEGIN CERT")]}
    count = 60_000 // len(chain) + 1  # still less than the 64 KiB of a pipe
    with pytest.raises(
        SecurityError, match=r"^ssl.keystore.key: \d+ bytes of certificates; at most 60000 are supported"
    ):
        server(settings | {"ssl.keystore.certificate.chain": chain * count})


def test_pipes_of_keys_are_closed(certificates: Certificates) -> None:
    before = os.listdir("/dev/fd")
    server(certificates.broker_settings())
    assert len(os.listdir("/dev/fd")) == len(before)
