from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, pkcs12
from cryptography.x509.oid import NameOID

from broker.security.key_stores import Lookup, key_store, trusted_certificates
from broker.security.security_error import SecurityError
from controller.configs import BROKER_CONFIGS
from storage.disk import UnsyncedDisk
from storage.properties import parse_properties
from tests.certificates import encrypted_pem, plain_pem, self_signed, write_pkcs12
from tests.typed import present

SECRET = "open sesame"


def lookup(settings: dict[str, Any]) -> Lookup:
    """Return Kafka's defaults below `settings`."""
    return lambda name: settings.get(name, BROKER_CONFIGS[name].default)


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[bytes], str]:
    def stored(content: bytes) -> str:
        (tmp_path / "store").write_bytes(content)
        return str(tmp_path / "store")

    return stored


def test_pem_of_settings_is_a_key_store() -> None:
    key, chain = plain_pem()
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
    found = present(key_store(lookup(settings), UnsyncedDisk()))
    assert (found.key, found.chain) == (key.encode(), chain.encode())


def test_pem_file_has_key_and_chain_in_any_order(stored: Callable[[bytes], str]) -> None:
    key, chain = plain_pem()
    for text in (key + chain, "a remark, für alle\n" + chain + key, "0 is the first character\n" + key + chain):
        settings = {"ssl.keystore.type": "pem", "ssl.keystore.location": stored(text.encode())}
        found = present(key_store(lookup(settings), UnsyncedDisk()))
        assert (found.key, found.chain) == (key.encode(), chain.encode())


@pytest.mark.parametrize("between", [" ", "", " \\\n    ", "\\\n", "\\n", "\\r\\n"])
@pytest.mark.parametrize("password", [None, SECRET])
def test_pem_whose_lines_are_joined_in_a_properties_file_is_read(between: str, password: str | None) -> None:
    key, chain = plain_pem() if password is None else encrypted_pem(password).split("-----BEGIN CERT")
    chain = chain if password is None else "-----BEGIN CERT" + chain
    names = ("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates")
    text = "".join(
        f"{name}={between.join(pem.splitlines())}\n" for name, pem in zip(names, (key, chain, chain * 2), strict=True)
    )
    settings = {name: value for name, (value, _) in parse_properties(text).items()}
    settings |= {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}
    found = present(key_store(lookup(settings), UnsyncedDisk()))
    assert (found.key, found.chain) == (key.encode(), chain.encode())
    assert trusted_certificates(lookup(settings), UnsyncedDisk()) == chain * 2


def test_headers_of_an_encrypted_key_of_openssl_are_kept() -> None:
    key = (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n"
        "-----END RSA PRIVATE KEY-----\n"
    )
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.key": key, "ssl.keystore.certificate.chain": plain_pem()[1]}
    assert present(key_store(lookup(settings), UnsyncedDisk())).key == key.encode()


def test_pkcs12_file_is_read_under_its_own_and_the_default_type(tmp_path: Path) -> None:
    path = tmp_path / "store.p12"
    write_pkcs12(path, SECRET)
    for kind in ("PKCS12", "JKS"):
        settings = {
            f"ssl.{store}.{name}": value
            for store in ("keystore", "truststore")
            for name, value in (("type", kind), ("location", str(path)), ("password", SECRET))
        }
        found = present(key_store(lookup(settings), UnsyncedDisk()))
        assert b"PRIVATE KEY" in found.key
        trusted = present(trusted_certificates(lookup(settings), UnsyncedDisk()))
        assert ssl.PEM_cert_to_DER_cert(found.chain.decode().split("-----END")[0] + "-----END CERTIFICATE-----\n")
        assert trusted.count("BEGIN CERTIFICATE") == 2


def test_without_settings_there_is_no_store() -> None:
    assert key_store(lookup({}), UnsyncedDisk()) is None
    assert trusted_certificates(lookup({}), UnsyncedDisk()) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ssl.keystore.key": "x"}, "ssl.keystore.key is for ssl.keystore.type=PEM, and that is JKS"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.key": "x"}, "set ssl.keystore.certificate.chain too"),
        ({"ssl.keystore.certificate.chain": "x"}, "set ssl.keystore.key too"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.password": SECRET}, "set ssl.key.password"),
        ({"ssl.keystore.password": SECRET}, "set ssl.keystore.location too"),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.key": "x", "ssl.keystore.location": "y"},
            "both set: remove one",
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.key": SECRET, "ssl.keystore.certificate.chain": "x"},
            "ssl.keystore.key: it has no private key in PEM format",
        ),
        ({"ssl.keystore.location": "/nowhere/store"}, "^ssl.keystore.location=/nowhere/store: No such file"),
        ({"ssl.truststore.certificates": "x"}, "ssl.truststore.certificates is for ssl.truststore.type=PEM"),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "x"}, "it has no certificate in PEM format"),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.password": SECRET}, "certificates have no password"),
        ({"ssl.truststore.password": SECRET}, "set ssl.truststore.location too"),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "x", "ssl.truststore.location": "y"},
            "both set: remove one",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused_without_their_secrets(settings: dict[str, str], message: str) -> None:
    read = trusted_certificates if any("truststore" in name for name in settings) else key_store
    with pytest.raises(SecurityError, match=message) as refused:
        read(lookup(settings), UnsyncedDisk())
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("JKS", b"\xfe\xed\xfe\xed rest", "JKS is not supported. Convert it with: keytool -importkeystore"),
        ("JKS", b"\xce\xce\xce\xce rest", "JKS is not supported. Convert it with: keytool -importkeystore"),
        ("PKCS12", b"text", "it is not of ssl.keystore.type=PKCS12$"),
        ("PKCS12", b"-----BEGIN CERTIFICATE-----", "it is not of ssl.keystore.type=PKCS12; set ssl.keystore.type=PEM"),
        ("PKCS12", b"\x30 damaged", "ssl.keystore.password is not set, or it is damaged"),
        ("PEM", b"\xfe\xed\xfe\xed rest", "JKS is not supported. Convert it with: keytool -importkeystore"),
        ("PEM", b"\x30\x82 rest", "it is not PEM; set ssl.keystore.type=PKCS12"),
        ("BCFKS", b"", "ssl.keystore.type=BCFKS is not supported"),
        ("PEM", b"text", "it has no private key in PEM format"),
    ],
)
def test_file_of_another_format_is_refused_with_the_remedy(
    stored: Callable[[bytes], str], kind: str, content: bytes, message: str
) -> None:
    settings = {"ssl.keystore.type": kind, "ssl.keystore.location": stored(content)}
    with pytest.raises(SecurityError, match=message):
        key_store(lookup(settings), UnsyncedDisk())


@pytest.mark.parametrize("store", ["keystore", "truststore"])
@pytest.mark.parametrize(("password", "why"), [(None, "is not set"), ("other", "is wrong")])
def test_pkcs12_with_a_wrong_password_or_none_is_refused_with_the_setting(
    store: str, password: str | None, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "store.p12"
    write_pkcs12(path, SECRET)
    settings = {f"ssl.{store}.type": "PKCS12", f"ssl.{store}.location": str(path)}
    if password is not None:
        settings[f"ssl.{store}.password"] = password
    read = key_store if store == "keystore" else trusted_certificates
    with pytest.raises(
        SecurityError, match=rf"^ssl.{store}.location={path}: ssl.{store}.password {why}, or it is damaged$"
    ):
        read(lookup(settings), UnsyncedDisk())


def test_pkcs12_without_its_library_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pkcs12(tmp_path / "store.p12", SECRET)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization.pkcs12", None)
    settings = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(tmp_path / "store.p12")}
    with pytest.raises(SecurityError, match=r"pip install 'barnabas\[pkcs12\]'"):
        key_store(lookup(settings), UnsyncedDisk())


@pytest.mark.parametrize("store", ["keystore", "truststore"])
def test_store_is_a_regular_file_of_limited_size(store: str, tmp_path: Path) -> None:
    read = key_store if store == "keystore" else trusted_certificates
    os.mkfifo(tmp_path / "pipe")  # nothing writes to it: opening it would wait for ever
    with open(tmp_path / "large", "wb") as large:
        large.truncate(17 << 20)
    for path, why in ((tmp_path / "pipe", "not a regular file"), (tmp_path / "large", "larger than 16777216 bytes")):
        settings = {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": str(path)}
        with pytest.raises(SecurityError, match=rf"^ssl.{store}.location={path}: {why}"):
            read(lookup(settings), UnsyncedDisk())


@pytest.mark.parametrize("has_key", [True, False])
def test_pkcs12_key_store_has_a_key_and_its_certificate(tmp_path: Path, *, has_key: bool) -> None:
    key, certificate = self_signed([[(NameOID.COMMON_NAME, "a")]])
    content = pkcs12.serialize_key_and_certificates(
        b"a", key if has_key else None, None, None if has_key else [certificate], NoEncryption()
    )
    (tmp_path / "store.p12").write_bytes(content)
    settings = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(tmp_path / "store.p12")}
    with pytest.raises(SecurityError, match="it has no private key with its certificate"):
        key_store(lookup(settings), UnsyncedDisk())


def test_pkcs12_trust_store_has_certificates_without_a_key(tmp_path: Path) -> None:
    key, one = self_signed([[(NameOID.COMMON_NAME, "one")]])
    _, other = self_signed([[(NameOID.COMMON_NAME, "other")]])
    settings = {"ssl.truststore.type": "PKCS12", "ssl.truststore.location": str(tmp_path / "store.p12")}
    content = pkcs12.serialize_key_and_certificates(None, None, None, [one, other], NoEncryption())
    (tmp_path / "store.p12").write_bytes(content)
    pems = [certificate.public_bytes(Encoding.PEM).decode() for certificate in (one, other)]
    assert trusted_certificates(lookup(settings), UnsyncedDisk()) == "".join(pems)
    (tmp_path / "store.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"a", key, None, None, NoEncryption()))
    with pytest.raises(SecurityError, match=r"store.p12: it has no certificate$"):
        trusted_certificates(lookup(settings), UnsyncedDisk())


def test_chain_of_a_pkcs12_file_begins_with_the_certificate_of_the_key(tmp_path: Path) -> None:
    key, own = self_signed([[(NameOID.COMMON_NAME, "own")]])
    _, other = self_signed([[(NameOID.COMMON_NAME, "other")]])
    (tmp_path / "store.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"a", key, own, [other], NoEncryption()))
    settings = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(tmp_path / "store.p12")}
    found = present(key_store(lookup(settings), UnsyncedDisk()))
    assert found.chain == own.public_bytes(Encoding.PEM) + other.public_bytes(Encoding.PEM)
    assert (found.password, found.origin) == (None, f"ssl.keystore.location={tmp_path / 'store.p12'}")
