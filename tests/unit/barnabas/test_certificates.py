from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from barnabas._certificates import Issued, is_current, is_issued_by, issue, new_authority

HOSTS = ["kafka.example.com", "10.0.0.7"]
AUTHORITY = new_authority("cluster of the tests")


def shake_hands(tmp_path: Path, issued: Issued, authority: Issued, host: str) -> None:
    """Let a client that trusts `authority` connect to `host`, in memory; ssl.SSLError if it refuses."""
    pem = tmp_path / "broker.pem"
    pem.write_text(issued.key + issued.certificate)
    server_context, client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server_context.load_cert_chain(pem)
    client_context.load_verify_locations(cadata=authority.certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=host)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    waiting = {client, server}
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)


@pytest.mark.parametrize("host", HOSTS)
def test_client_that_trusts_the_authority_accepts_each_host(tmp_path: Path, host: str) -> None:
    shake_hands(tmp_path, issue(AUTHORITY, "broker", HOSTS), AUTHORITY, host)


def test_client_refuses_another_host_and_another_authority(tmp_path: Path) -> None:
    issued = issue(AUTHORITY, "broker", HOSTS)
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        shake_hands(tmp_path, issued, AUTHORITY, "10.0.0.8")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"self-signed|unable to get local issuer|signature failure"):
        shake_hands(tmp_path, issued, new_authority("cluster of the tests"), HOSTS[0])


def test_client_refuses_an_expired_certificate(tmp_path: Path) -> None:
    issued = issue(AUTHORITY, "broker", HOSTS, datetime.now(UTC) - timedelta(days=398))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shake_hands(tmp_path, issued, AUTHORITY, HOSTS[0])


def test_certificate_is_current_until_30_days_before_its_end_for_its_hosts() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    issued = issue(AUTHORITY, "broker", HOSTS, now)
    assert is_current(issued.certificate, HOSTS[:1], now + timedelta(days=366))
    assert not is_current(issued.certificate, HOSTS, now + timedelta(days=368))
    assert not is_current(issued.certificate, [*HOSTS, "localhost"], now)
    assert is_issued_by(issued.certificate, AUTHORITY)
    assert not is_issued_by(issued.certificate, new_authority("cluster of the tests"))
    assert not is_issued_by(issued.certificate, new_authority("another name"))


@pytest.mark.parametrize("damaged", [Issued("", AUTHORITY.certificate), Issued(AUTHORITY.key, "no PEM")])
def test_damaged_authority_is_an_error(damaged: Issued) -> None:
    with pytest.raises(ValueError, match=r".+"):
        issue(damaged, "broker", HOSTS)
