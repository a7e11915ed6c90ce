"""Names in the certificate of a listener, which stay the same when it is replaced while the broker runs.

Kafka: `SslFactory.CertificateEntries`. Other nodes and ACLs know a broker by its distinguished name, clients by the
alternative names: a new certificate must have the distinguished name of the old one, and all of its alternative names.
`ssl.allow.dn.changes` and `ssl.allow.san.changes` of the start allow others.
"""

from __future__ import annotations

import ssl
from typing import NamedTuple

from broker.security.distinguished_name import DamagedCertificateError, alternative_names, subject_of
from broker.security.key_stores import Lookup, key_store
from broker.security.security_error import SecurityError
from broker.security.ssl_contexts import first_certificate
from storage.disk import Disk


class CertificateNames(NamedTuple):
    """The subject and the alternative names of a certificate; `origin` names its setting or file in messages."""

    subject: str
    alternatives: frozenset[str]
    origin: str


def certificate_names(value: Lookup, disk: Disk) -> CertificateNames | None:
    """Return the names in the certificate of the key store, which can be read; None if none is configured."""
    keys = key_store(value, disk)
    if keys is None:
        return None
    try:
        certificate = ssl.PEM_cert_to_DER_cert(first_certificate(keys))
        return CertificateNames(subject_of(certificate), alternative_names(certificate), keys.origin)
    except (DamagedCertificateError, ValueError):
        raise SecurityError(f"{keys.origin}: the names in the certificate are damaged") from None


def check_same_names(value: Lookup, old: CertificateNames | None, new: CertificateNames | None) -> None:
    """Raise `SecurityError` if a certificate cannot replace another while the broker runs; None is none."""
    if old is None or new is None:
        return
    if new.subject.casefold() != old.subject.casefold() and not value("ssl.allow.dn.changes"):
        raise SecurityError(
            f"{new.origin}: the certificate is of {new.subject}, and the one in use of {old.subject}: "
            "restart the broker with this one, or with ssl.allow.dn.changes=true, which allows that while it runs"
        )
    missing = old.alternatives - new.alternatives
    if missing and not value("ssl.allow.san.changes"):
        raise SecurityError(
            f"{new.origin}: the certificate lacks names of the one in use ({', '.join(sorted(missing))}): "
            "restart the broker with this one, or with ssl.allow.san.changes=true, which allows that while it runs"
        )
