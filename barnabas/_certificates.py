"""Certificates of a secure cluster on one machine, as PEM text: an authority, and what it issues to brokers.

ECDSA keys on P-256, which Java, OpenSSL and Go all accept. The module needs the package cryptography; import it only
when certificates are made.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITY_LIFETIME = timedelta(days=3650)
_LIFETIME = timedelta(days=397)  # the longest that Apple's clients accept
_RENEWAL = timedelta(days=30)
_CLOCK_SKEW = timedelta(hours=1)


class Issued(NamedTuple):
    """A private key (PKCS#8, not encrypted) and its certificate."""

    key: str
    certificate: str


def new_authority(name: str, now: datetime | None = None) -> Issued:
    """Return a new authority, valid for ten years; it can issue certificates of hosts, and no other authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    builder = (
        _builder(key.public_key(), subject, subject, now or datetime.now(UTC), _AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _issued(key, builder.sign(key, hashes.SHA256()))


def issue(authority: Issued, name: str, hosts: list[str], now: datetime | None = None) -> Issued:
    """Return a new certificate for servers and clients at `hosts`, names or addresses; valid for 397 days.

    ValueError if the authority's PEM text is damaged.
    """
    authority_key, authority_certificate = _authority(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(key.public_key(), _subject(name), authority_certificate.subject, now or datetime.now(UTC), _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )
    return _issued(key, builder.sign(authority_key, hashes.SHA256()))


def is_issued_by(certificate: str, authority: Issued) -> bool:
    """Return whether the authority has issued the certificate; ValueError if PEM text is damaged."""
    found, issuer = x509.load_pem_x509_certificate(certificate.encode()), _authority(authority)[1]
    try:
        found.verify_directly_issued_by(issuer)
    except (InvalidSignature, TypeError, ValueError):  # of another key, kind of key, or name
        return False
    return True


def is_current(certificate: str, hosts: list[str], now: datetime | None = None) -> bool:
    """Return whether a certificate is for all `hosts` and valid for 30 days more; ValueError if it is damaged."""
    found = x509.load_pem_x509_certificate(certificate.encode())
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    left = found.not_valid_after_utc - (now or datetime.now(UTC))
    return left > _RENEWAL and {_general_name(host) for host in hosts} <= set(names)


def _authority(authority: Issued) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = load_pem_private_key(authority.key.encode(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is not an ECDSA key")
    return key, x509.load_pem_x509_certificate(authority.certificate.encode())


def _builder(
    public_key: ec.EllipticCurvePublicKey, subject: x509.Name, issuer: x509.Name, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        issuer, subject, public_key, x509.random_serial_number(), now - _CLOCK_SKEW, now + lifetime
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(name: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Barnabas"), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _issued(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> Issued:
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Issued(text.decode(), certificate.public_bytes(Encoding.PEM).decode())
