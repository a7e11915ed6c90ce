"""Private keys and trusted certificates from key stores: PEM as settings or files (KIP-651), and PKCS#12.

Everything becomes PEM text in memory, for OpenSSL. PKCS#12 needs the library cryptography, imported only here. Java's
own format, JKS, is refused with the command that converts it. A file is recognized by its content where its type is
Kafka's default, JKS, because Java reads PKCS#12 under that name too. Messages contain no secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from broker.security.security_error import SecurityError
from storage.disk import Disk, reason

_CERTIFICATE = re.compile(rb"-----BEGIN (CERTIFICATE)-----(.+?)-----END \1-----", re.DOTALL)
_PRIVATE_KEY = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----(.+?)-----END \1-----", re.DOTALL)
_PEM_WIDTH = 64
_JKS, _JCEKS = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"
_PEM, _PKCS12, _DEFAULT_TYPE = "PEM", "PKCS12", "JKS"
_DER_SEQUENCE = b"\x30"
_MAX_BYTES = 16 << 20

Lookup = Callable[[str], Any]
"""Returns the value of a setting of one listener by Kafka's name, such as `ssl.keystore.type`."""


class KeyStore(NamedTuple):
    """A private key and its certificate chain as PEM; `origin` names the setting or file in messages."""

    key: bytes
    chain: bytes
    password: str | None
    origin: str


def key_store(value: Lookup, disk: Disk) -> KeyStore | None:
    """Return the private key and its certificates; None if none is configured. `SecurityError` if they are invalid."""
    kind, location = str(value("ssl.keystore.type")).upper(), value("ssl.keystore.location")
    key, chain = value("ssl.keystore.key"), value("ssl.keystore.certificate.chain")
    password = value("ssl.keystore.password")
    if kind == _PEM and password is not None:
        raise SecurityError("ssl.keystore.password is not for PEM: set ssl.key.password, the password of the key")
    if key is not None:
        if kind != _PEM:
            raise SecurityError(f"ssl.keystore.key is for ssl.keystore.type=PEM, and that is {kind}")
        if location is not None:
            raise SecurityError("ssl.keystore.key and ssl.keystore.location are both set: remove one of them")
        if chain is None:
            raise SecurityError("ssl.keystore.key is set: set ssl.keystore.certificate.chain too")
        return _pem_store(key.encode(), chain.encode(), value("ssl.key.password"), "ssl.keystore.key")
    if chain is not None:
        raise SecurityError("ssl.keystore.certificate.chain is set: set ssl.keystore.key too")
    if location is None:
        if password is not None:
            raise SecurityError("ssl.keystore.password is set: set ssl.keystore.location too")
        return None
    origin = f"ssl.keystore.location={location}"
    data = _read(disk, location, origin)
    if _is_pem(kind, data, "keystore", origin):
        return _pem_store(data, data, value("ssl.key.password"), origin)
    content = _pkcs12(data, password, "keystore", origin)
    if content.key is None or content.cert is None:
        raise SecurityError(f"{origin}: it has no private key with its certificate")
    return _from_pkcs12(content, origin)


def trusted_certificates(value: Lookup, disk: Disk) -> str | None:
    """Return the trusted certificates as PEM; None if none are configured. `SecurityError` if they are invalid."""
    kind, location = str(value("ssl.truststore.type")).upper(), value("ssl.truststore.location")
    text, password = value("ssl.truststore.certificates"), value("ssl.truststore.password")
    if kind == _PEM and password is not None:
        raise SecurityError("ssl.truststore.password is not for PEM: certificates have no password")
    if text is not None:
        if kind != _PEM:
            raise SecurityError(f"ssl.truststore.certificates is for ssl.truststore.type=PEM, and that is {kind}")
        if location is not None:
            raise SecurityError("ssl.truststore.certificates and ssl.truststore.location are both set: remove one")
        return _certificates(text.encode(), "ssl.truststore.certificates")
    if location is None:
        if password is not None:
            raise SecurityError("ssl.truststore.password is set: set ssl.truststore.location too")
        return None
    origin = f"ssl.truststore.location={location}"
    data = _read(disk, location, origin)
    if _is_pem(kind, data, "truststore", origin):
        return _certificates(data, origin)
    from cryptography.hazmat.primitives.serialization import Encoding

    content = _pkcs12(data, password, "truststore", origin)
    found = [one.certificate.public_bytes(Encoding.PEM).decode() for one in content.additional_certs]
    if content.cert is not None:
        found.append(content.cert.certificate.public_bytes(Encoding.PEM).decode())
    if not found:
        raise SecurityError(f"{origin}: it has no certificate")
    return "".join(found)


def _read(disk: Disk, location: str, origin: str) -> bytes:
    try:
        return disk.read_regular_file(location, _MAX_BYTES)
    except OSError as error:
        raise SecurityError(f"{origin}: {error.strerror or reason(error)}") from None  # the origin has the path


def _pem_store(key: bytes, chain: bytes, password: str | None, origin: str) -> KeyStore:
    found = _PRIVATE_KEY.search(key)
    if found is None:
        raise SecurityError(f"{origin}: it has no private key in PEM format (-----BEGIN PRIVATE KEY-----)")
    return KeyStore(_in_lines(found).encode(), _certificates(chain, origin).encode(), password, origin)


def _certificates(data: bytes, origin: str) -> str:
    found = "".join(map(_in_lines, _CERTIFICATE.finditer(data)))
    if not found:
        raise SecurityError(f"{origin}: it has no certificate in PEM format (-----BEGIN CERTIFICATE-----)")
    return found


def _in_lines(found: re.Match[bytes]) -> str:
    """Return a PEM object with its base64 in lines, as OpenSSL needs it.

    A value that continues over several lines of a properties file has blanks, or nothing, where the lines ended.
    """
    label, content = (part.decode("ascii", "replace") for part in found.groups())
    if ":" not in content:  # else it has headers in lines of their own (RFC 1421): the encryption of OpenSSL's own keys
        base64 = "".join(content.split())
        content = "\n".join(base64[at : at + _PEM_WIDTH] for at in range(0, len(base64), _PEM_WIDTH))
    return f"-----BEGIN {label}-----\n{content.strip()}\n-----END {label}-----\n"


def _is_pem(kind: str, data: bytes, store: str, origin: str) -> bool:
    """Return whether a file is PEM, False if it is PKCS#12; `SecurityError` for another type or content."""
    if kind not in (_PEM, _PKCS12, _DEFAULT_TYPE):
        raise SecurityError(f"ssl.{store}.type={kind} is not supported: convert the store to PEM or PKCS12")
    if data.startswith((_JKS, _JCEKS)):
        raise SecurityError(
            f"{origin}: Java's format JKS is not supported. Convert it with: keytool -importkeystore -srckeystore FILE "
            f"-destkeystore FILE.p12 -deststoretype PKCS12, and set ssl.{store}.type=PKCS12"
        )
    if kind == _PEM:
        if data.startswith(_DER_SEQUENCE) and b"-----BEGIN" not in data:
            raise SecurityError(f"{origin}: it is not PEM; set ssl.{store}.type=PKCS12 if it is of that format")
        return True
    if not data.startswith(_DER_SEQUENCE):
        hint = f"; set ssl.{store}.type=PEM" if b"-----BEGIN" in data else ""
        raise SecurityError(f"{origin}: it is not of ssl.{store}.type={kind}{hint}")
    return False


def _pkcs12(data: bytes, password: str | None, store: str, origin: str) -> Any:
    """Return the content of a PKCS#12 file, as `cryptography` reads it."""
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise SecurityError(
            f"{origin}: PKCS12 needs the library cryptography (pip install 'barnabas[pkcs12]'), or convert the store "
            "to PEM with: openssl pkcs12 -in FILE -out FILE.pem"
        ) from None
    try:
        return load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        why = f"ssl.{store}.password is not set" if password is None else f"ssl.{store}.password is wrong"
        raise SecurityError(f"{origin}: {why}, or it is damaged") from None


def _from_pkcs12(content: Any, origin: str) -> KeyStore:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    chain = [content.cert, *content.additional_certs]
    return KeyStore(
        content.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        b"".join(one.certificate.public_bytes(Encoding.PEM) for one in chain),
        None,
        origin,
    )
