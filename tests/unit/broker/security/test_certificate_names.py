"""Which certificate can replace another while the broker runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from broker.security.certificate_names import certificate_names, check_same_names
from broker.security.security_error import SecurityError
from storage.disk import UnsyncedDisk
from tests.certificates import Certificates, plain_pem
from tests.typed import present
from tests.unit.broker.security.secured import listener_security


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


OTHER_SUBJECT = "the certificate is of CN=other,.*, and the one in use of .*: .* ssl.allow.dn.changes=true"
FEWER_NAMES = r"the certificate lacks names of the one in use \(DNS:localhost, IP:::1\): .* ssl.allow.san.changes=true"


@pytest.mark.parametrize(
    ("identities", "common_name", "allowed", "why"),
    [
        (["127.0.0.1", "localhost", "::1"], "other", "", OTHER_SUBJECT),
        (["127.0.0.1", "localhost", "::1"], "other", "ssl.allow.san.changes", OTHER_SUBJECT),
        (["127.0.0.1", "localhost", "::1"], "other", "ssl.allow.dn.changes", None),
        (["127.0.0.1", "localhost", "::1"], "other", "listener.name.ssl.ssl.allow.dn.changes", None),
        (["127.0.0.1"], None, "", FEWER_NAMES),
        (["127.0.0.1"], None, "ssl.allow.dn.changes", FEWER_NAMES),
        (["127.0.0.1"], None, "ssl.allow.san.changes", None),
        (["127.0.0.1", "localhost", "::1", "more.example"], None, "", None),
    ],
)
def test_certificate_of_other_names_replaces_none_while_the_broker_runs_unless_that_is_allowed(
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
    identities: list[str],
    common_name: str | None,
    allowed: str,
    why: str | None,
) -> None:
    settings = certificates.broker_settings() | {"listeners": "SSL://:1", **({allowed: "true"} if allowed else {})}
    security, _ = listener_security(**settings)
    security.load(["SSL"])
    tls = present(security.tls_of("SSL"))
    first = tls.context
    other = {
        "listener.name.ssl.ssl.keystore.location": str(certificates.issue("o", *identities, common_name=common_name))
    }
    altered, _ = listener_security(**settings, **other)
    altered.check(["SSL"])
    if why is None:
        security.check_replacement(altered)
    else:
        with pytest.raises(SecurityError, match=f"^listener SSL: ssl.keystore.location=.*o.pem: {why}"):
            security.check_replacement(altered)

    security.is_serving = True
    certificates.issue("broker", *identities, common_name=common_name)
    os.utime(certificates.broker, (1, 1))
    asyncio.run(security.reload_if_changed())
    assert (tls.context is first) is (why is not None)
    assert ("the old ones stay in use" in caplog.text) is (why is not None)


def test_start_uses_the_certificate_of_a_stored_alteration_whatever_its_names(certificates: Certificates) -> None:
    """A certificate of other names is used by a restart, as the error says that refuses it before."""
    security, _ = listener_security(listeners="SSL://:1", **certificates.broker_settings())
    security.load(["SSL"])
    tls = present(security.tls_of("SSL"))
    first = tls.context
    certificates.issue("broker", "127.0.0.1", common_name="other")
    security.reload()
    assert tls.context is not first


def test_authority_of_nodes_is_not_replaced_at_once(certificates: Certificates, tmp_path: Path) -> None:
    """Other nodes still have the old one."""
    (tmp_path / "others").mkdir()
    settings, others = {"listeners": "SSL://:1"}, Certificates(tmp_path / "others").broker_settings()
    security, _ = listener_security(**settings, **certificates.broker_settings())
    security.load(["SSL"])
    altered, _ = listener_security(**settings, **others)
    altered.check(["SSL"])
    with pytest.raises(
        SecurityError, match=r"^listener SSL: nodes with the settings in use and nodes with these could not"
    ):
        security.check_replacement(altered)
    security, _ = listener_security(**settings, **certificates.broker_settings())
    security.load([])  # nodes do not connect to this listener
    altered, _ = listener_security(**settings, **others)
    altered.check([])
    security.check_replacement(altered)


def test_subjects_that_differ_in_case_only_are_the_same(tmp_path: Path) -> None:
    key, chain = plain_pem("Broker")
    settings = {"listeners": "SSL://:1", "ssl.keystore.type": "PEM"}
    security, _ = listener_security(**settings, **{"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain})
    security.load([])
    key, chain = plain_pem("broker")
    other, _ = listener_security(**settings, **{"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain})
    other.check([])
    security.check_replacement(other)
