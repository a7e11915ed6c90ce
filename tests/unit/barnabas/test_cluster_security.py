from __future__ import annotations

import json
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from barnabas._certificates import Issued, issue, new_authority
from barnabas._cluster_security import ClusterSecurity, ClusterSecurityError, is_secure
from barnabas.commands._command_config import read_command_config
from barnabas.commands._settings import read_settings


def secured(folder: Path, host: str = "127.0.0.1") -> ClusterSecurity:
    return ClusterSecurity(str(folder), host)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "security").iterdir()}


def test_other_users_cannot_enter_the_folder_and_only_the_authoritys_certificate_has_a_public_mode(
    tmp_path: Path,
) -> None:
    secured(tmp_path).write_clients("127.0.0.1:9092")
    folder = tmp_path / "security"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes.pop("ca.pem") == 0o644
    assert set(modes.values()) == {0o600}
    assert modes.keys() >= {"ca-key.pem", "broker.pem", "users.properties", "admin.properties", "client.json"}


def test_second_start_uses_the_same_certificates_and_passwords(tmp_path: Path) -> None:
    assert not is_secure(str(tmp_path))
    secured(tmp_path).write_clients("127.0.0.1:9092")
    before = contents(tmp_path)
    assert is_secure(str(tmp_path))
    secured(tmp_path).write_clients("127.0.0.1:9092")
    assert contents(tmp_path) == before


def test_the_secret_of_tokens_is_random_and_kept(tmp_path: Path) -> None:
    setting = "delegation.token.secret.key"
    first = secured(tmp_path).broker_settings()[setting]
    assert len(first) >= 32
    assert secured(tmp_path).broker_settings()[setting] == first
    (tmp_path / "security" / "token-key").unlink()
    assert secured(tmp_path).broker_settings()[setting] != first


def test_another_host_renews_the_brokers_certificate_only(tmp_path: Path) -> None:
    secured(tmp_path)
    before = contents(tmp_path)
    secured(tmp_path, "10.0.0.7")
    after = contents(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {"broker.pem"}


def test_files_of_a_user_agree_for_java_librdkafka_and_kafka_python(tmp_path: Path) -> None:
    (tmp_path / "security").mkdir()
    (tmp_path / "security" / "users.properties").write_text('carol=pa"ss\\wo=rd;#\n')
    security = secured(tmp_path)
    files = security.write_clients("127.0.0.1:9092,127.0.0.1:9093")
    assert list(files) == ["admin", "carol"]
    java = read_command_config(files["carol"].java, pytest.fail)
    by_java, by_librdkafka = dict(java.settings), dict(read_settings(files["carol"].librdkafka))
    by_python = json.loads(Path(files["carol"].kafka_python).read_text())
    assert by_java["sasl_plain_username"] == by_librdkafka["sasl.username"] == by_python["sasl_plain_username"]
    assert by_java["sasl_plain_password"] == by_librdkafka["sasl.password"] == by_python["sasl_plain_password"]
    assert by_python["sasl_plain_password"] == 'pa"ss\\wo=rd;#'
    assert java.bootstrap_servers == by_librdkafka["bootstrap.servers"] == by_python["bootstrap_servers"]
    assert by_java["ssl_cafile"] == by_librdkafka["ssl.ca.location"] == by_python["ssl_cafile"] == security.trusted
    login = security.broker_settings()["listener.name.sasl_ssl.plain.sasl.jaas.config"]
    assert 'user_carol="pa\\"ss\\\\wo=rd;#"' in login


def test_users_whose_lines_are_removed_are_gone_except_those_that_every_cluster_needs(tmp_path: Path) -> None:
    users = tmp_path / "security" / "users.properties"
    assert secured(tmp_path).users == ["admin", "client"]
    users.write_text("dave=secret\n")
    security = secured(tmp_path)
    assert security.users == ["admin", "dave"]
    assert "user_client=" not in security.broker_settings()["listener.name.sasl_ssl.plain.sasl.jaas.config"]
    assert [line.partition("=")[0] for line in users.read_text().splitlines()] == ["dave", "broker", "admin"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("../admin=x", "a name of a user has letters, digits, ., _ and -"),
        ("a b=c", "a name of a user has letters, digits, ., _ and -"),
        ("alice", "it has no ="),
        ("alice=", "the password is empty"),
        (" alice = sp ace ", "there is a space before or after the name of the user"),
    ],
)
def test_invalid_line_among_the_users_is_refused_without_showing_it(tmp_path: Path, line: str, why: str) -> None:
    (tmp_path / "security").mkdir()
    (tmp_path / "security" / "users.properties").write_text(f"# users\n{line}\n")
    with pytest.raises(
        ClusterSecurityError, match=rf"users.properties, line 2: {why}.*; write it as USER=PASSWORD$"
    ) as refused:
        secured(tmp_path)
    assert line not in str(refused.value)


def test_user_with_two_passwords_is_refused_without_showing_them(tmp_path: Path) -> None:
    (tmp_path / "security").mkdir()
    (tmp_path / "security" / "users.properties").write_text("carol=first\n# again\ncarol=second\n")
    with pytest.raises(
        ClusterSecurityError, match=r"users.properties, line 3: carol has a password in an earlier line"
    ) as refused:
        secured(tmp_path)
    assert "first" not in str(refused.value)
    assert "second" not in str(refused.value)


def test_missing_key_of_the_authority_and_damaged_certificates_are_refused(tmp_path: Path) -> None:
    secured(tmp_path)
    key = tmp_path / "security" / "ca-key.pem"
    key.write_text("damaged")
    with pytest.raises(ClusterSecurityError, match="is damaged"):
        secured(tmp_path)
    key.unlink()
    with pytest.raises(ClusterSecurityError, match=r"ca-key.pem is missing: restore it, or remove .*security"):
        secured(tmp_path)


@pytest.mark.parametrize("name", ["users", "Users"])
def test_user_whose_settings_would_replace_the_passwords_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "security").mkdir()
    users = tmp_path / "security" / "users.properties"
    users.write_text(f"carol=secret\n{name}=hidden\n")
    with pytest.raises(ClusterSecurityError, match=f"users.properties, line 2: no user can be named {name}") as refused:
        secured(tmp_path).write_clients("127.0.0.1:9092")
    assert "hidden" not in str(refused.value)
    assert users.read_text() == f"carol=secret\n{name}=hidden\n"


def test_start_without_cryptography_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "barnabas._certificates", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ClusterSecurityError, match=r"pip install 'barnabas\[secure\]'"):
        secured(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_folder_without_an_authority_is_not_that_of_a_secure_cluster(tmp_path: Path) -> None:
    (tmp_path / "security").mkdir()
    assert not is_secure(str(tmp_path))


def without_names(authority: Issued) -> str:
    """Return a key and a certificate of `authority` that is valid for no host."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    signer = load_pem_private_key(authority.key.encode(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    now = datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "own")])
    builder = x509.CertificateBuilder(issuer.subject, subject, key.public_key(), 1, now, now + timedelta(days=90))
    certificate = builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)
    return (key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate).decode()


@pytest.mark.parametrize("kind", ["own", "own without names", "key elsewhere"])
def test_brokers_certificate_of_another_authority_is_refused_and_kept(tmp_path: Path, kind: str) -> None:
    secured(tmp_path)
    path = tmp_path / "security" / "broker.pem"
    other = new_authority("the company")
    issued = issue(other, "broker", ["127.0.0.1", "localhost", "::1"])
    texts = {
        "own": issued.key + issued.certificate,
        "own without names": without_names(other),
        "key elsewhere": issued.certificate,
    }
    path.write_text(texts[kind])
    with pytest.raises(
        ClusterSecurityError, match=r"broker.pem is not a key with a certificate of the authority in .*ca.pem"
    ):
        secured(tmp_path)
    assert path.read_text() == texts[kind]


def test_certificate_without_names_of_the_clusters_authority_is_renewed(tmp_path: Path) -> None:
    secured(tmp_path)
    folder = tmp_path / "security"
    text = without_names(Issued((folder / "ca-key.pem").read_text(), (folder / "ca.pem").read_text()))
    (folder / "broker.pem").write_text(text)
    secured(tmp_path)
    assert (folder / "broker.pem").read_text() != text


def test_brokers_certificate_beside_no_authority_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "security"
    folder.mkdir()
    (folder / "broker.pem").write_text("of the company")
    with pytest.raises(ClusterSecurityError, match="has none yet: move it elsewhere"):
        secured(tmp_path)
    assert [path.name for path in folder.iterdir()] == ["broker.pem"]
