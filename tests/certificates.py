"""Certificates for tests, made when they run."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import NameOID

Subject = Sequence[Sequence[tuple[x509.ObjectIdentifier, str]]]
"""Relative names, each of one or more attributes."""


class Certificates:
    """An authority in a folder: what a broker at 127.0.0.1 and its clients need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.trusted = folder / "trusted.pem"
        self._authority.cert_pem.write_to_path(self.trusted)

    @cached_property
    def broker(self) -> Path:
        """The PEM file with the key and the certificate of a broker."""
        return self.issue("broker", "127.0.0.1", "localhost", "::1")

    @cached_property
    def alice(self) -> Path:
        """The PEM file of a client whose subject begins with CN=alice."""
        return self.issue("alice", "alice@example.com", common_name="alice")

    def issue(
        self,
        name: str,
        *identities: str,
        common_name: str | None = None,
        begins: datetime.datetime | None = None,
        expires: datetime.datetime | None = None,
    ) -> Path:
        """Return the PEM file of a new certificate."""
        path = self.folder / f"{name}.pem"
        issued = self._authority.issue_cert(
            *identities,
            common_name=common_name,
            organization_unit_name="tests",  # random by default, but a renewed certificate has the old subject
            key_type=trustme.KeyType.ECDSA,
            not_before=begins,
            not_after=expires,
        )
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        path.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + chain
        )  # as Java needs it
        return path

    def broker_settings(self, **others: str) -> dict[str, str]:
        """Return the ssl settings of a broker, and `others` with _ for each dot in their names."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
        } | {name.replace("_", "."): value for name, value in others.items()}


def self_signed(subject: Subject) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Return a private key and its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [[x509.NameAttribute(kind, value) for kind, value in names] for names in subject]
    name = x509.Name([x509.RelativeDistinguishedName(names) for names in attributes])
    begin = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), begin, begin + datetime.timedelta(days=30)
    )
    return key, builder.sign(key, hashes.SHA256())


def write_pkcs12(path: Path, password: str, common_name: str = "broker") -> None:
    """Write a key and its certificate as PKCS#12."""
    key, certificate = self_signed([[(NameOID.COMMON_NAME, common_name)]])
    encryption = BestAvailableEncryption(password.encode())
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"key", key, certificate, [certificate], encryption))


def encrypted_pem(password: str) -> str:
    """Return an encrypted private key and its certificate as PEM."""
    key, certificate = self_signed([[(NameOID.COMMON_NAME, "broker")]])
    encryption = BestAvailableEncryption(password.encode())
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    return (text + certificate.public_bytes(Encoding.PEM)).decode()


def plain_pem(common_name: str = "broker") -> tuple[str, str]:
    """Return a private key and its certificate as PEM."""
    key, certificate = self_signed([[(NameOID.COMMON_NAME, common_name)]])
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return text.decode(), certificate.public_bytes(Encoding.PEM).decode()
