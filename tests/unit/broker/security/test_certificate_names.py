"""Names of a certificate that must not change while the broker runs; `test_listener_security.py` replaces some."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.security.certificate_names import certificate_names, check_same_names
from broker.security.security_error import SecurityError
from storage.disk import UnsyncedDisk
from tests.certificates import Certificates


def unset(_: str) -> None:
    """Return the value of any setting."""


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def test_names_are_those_of_the_first_certificate(certificates: Certificates) -> None:
    settings = certificates.broker_settings()
    names = certificate_names(settings.get, UnsyncedDisk())
    assert names is not None
    assert names.subject.startswith("OU=tests,O=")
    assert names.alternatives == {"DNS:localhost", "IP:127.0.0.1", "IP:::1"}
    assert names.origin == f"ssl.keystore.location={certificates.broker}"


def test_without_a_certificate_there_is_nothing_to_compare(certificates: Certificates) -> None:
    names = certificate_names(certificates.broker_settings().get, UnsyncedDisk())
    assert certificate_names(unset, UnsyncedDisk()) is None
    check_same_names(unset, None, names)
    check_same_names(unset, names, None)


def test_certificate_whose_names_cannot_be_read_is_refused(certificates: Certificates) -> None:
    key, _, _ = certificates.broker.read_text().partition("-----BEGIN CERTIFICATE-----")
    certificates.broker.write_text(f"{key}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(SecurityError, match=r"broker\.pem: the names in the certificate are damaged"):
        certificate_names(certificates.broker_settings().get, UnsyncedDisk())
