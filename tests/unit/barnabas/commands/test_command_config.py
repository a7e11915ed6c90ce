from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.commands._command_config import CommandConfig, read_command_config
from barnabas.commands._output import CommandError, WrongCall

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
TYPE = "ssl.keystore.type=PEM\n"
CERTIFICATE = "-----BEGIN CERTIFICATE----- AA -----END CERTIFICATE-----"


def read(tmp_path: Path, text: str) -> tuple[CommandConfig, list[str]]:
    path = tmp_path / "client.properties"
    warnings: list[str] = []
    path.write_text(text)
    return read_command_config(str(path), warnings.append), warnings


def test_settings_of_the_java_client_become_those_of_kafka_python(tmp_path: Path) -> None:
    text = (
        "# of alice\n! also a comment\nbootstrap.servers: one:1,two:2\nsecurity.protocol SASL_SSL\n"
        "ssl.truststore.type=PEM\nssl.truststore.location=/etc/\\\n   trusted.pem\n"
        "ssl.keystore.type=pem\nssl.keystore.location=/etc/alice.pem\nssl.key.password=k\\u00e9y\n"
        "ssl.endpoint.identification.algorithm=\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN} required \\\n  username="alice" password="al\\\\"ice,=; #\\\\\\\\";\n'
    )
    config, warnings = read(tmp_path, text)
    assert config.bootstrap_servers == "one:1,two:2"
    assert dict(config.settings) == {
        "security.protocol": "SASL_SSL",
        "ssl_cafile": "/etc/trusted.pem",
        "ssl_certfile": "/etc/alice.pem",
        "ssl.key.password": "kéy",
        "ssl_check_hostname": "false",
        "sasl.mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": 'al"ice,=; #\\',
    }
    assert warnings == []


def test_line_of_a_delegation_token_is_recognized(tmp_path: Path) -> None:
    line = f'sasl.jaas.config={SCRAM} required username="id" password="hmac"'
    assert not read(tmp_path, f"{line};\n")[0].by_token
    assert not read(tmp_path, f'{line} tokenauth="false";\n')[0].by_token
    assert read(tmp_path, f'{line} tokenauth="true";\n')[0].by_token
    assert read(tmp_path, f"{line} tokenauth=true;\n")[0].by_token


def test_settings_that_the_commands_do_not_have_are_reported_and_ignored(tmp_path: Path) -> None:
    config, warnings = read(tmp_path, "client.id=me\nmetadata.recovery.strategy=none\nenable.metrics.push=false\n")
    assert config.settings == [("client.id", "me")]
    (warning,) = warnings
    assert (
        "ignoring settings that these commands do not have: metadata.recovery.strategy, enable.metrics.push" in warning
    )


def test_lines_that_are_no_settings_are_counted_and_not_shown(tmp_path: Path) -> None:
    secret = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg"
    config, warnings = read(tmp_path, f"client.id=me\n{secret}\n{secret.lower()}{secret.lower()}\nno.such=1\n")
    assert config.settings == [("client.id", "me")]
    (warning,) = warnings
    assert warning.endswith("ignoring settings that these commands do not have: no.such; 2 lines that are no settings")


def test_pem_text_without_backslashes_is_refused_and_not_shown(tmp_path: Path) -> None:
    text = "ssl.keystore.key=-----BEGIN PRIVATE KEY-----\nMIGHAgEA\n-----END PRIVATE KEY-----\n"
    with pytest.raises(WrongCall, match=r"each line of PEM text but its last must end with a backslash$"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ssl.truststore.location=/a.jks", "the commands read PEM only.*ssl.truststore.type=PEM"),
        ("ssl.truststore.certificates=secret", "certificates is for ssl.truststore.type=PEM, and that is JKS"),
        (f"{TYPE}ssl.keystore.key=secret", "ssl.keystore.key is set: set ssl.keystore.certificate.chain too"),
        (f"{TYPE}ssl.keystore.certificate.chain=secret", "set ssl.keystore.key too"),
        (
            f"{TYPE}ssl.keystore.location=/a.pem\nssl.keystore.key=secret",
            "ssl.keystore.key and ssl.keystore.location are both set: remove one of them",
        ),
        (
            f"{TYPE}ssl.keystore.key=secret\nssl.keystore.certificate.chain=secret",
            r"ssl.keystore.certificate.chain: it has no certificate in PEM format \(-----BEGIN CERTIFICATE-----\)",
        ),
        (
            f"{TYPE}ssl.keystore.key=secret\nssl.keystore.certificate.chain={CERTIFICATE}",
            r"ssl.keystore.key: it has no private key in PEM format \(-----BEGIN PRIVATE KEY-----\)",
        ),
        (
            f"ssl.truststore.type=PEM\nssl.truststore.certificates={CERTIFICATE.replace('AA', 'sécret')}",
            "ssl.truststore.certificates: it is damaged",
        ),
        ("sasl.jaas.config=com.example.Module required a=b;", "not by com.example.Module"),
        (f'sasl.jaas.config={PLAIN} required username="alice" password="secret', "write it as MODULE required"),
        (
            f'sasl.jaas.config={PLAIN} required username="a" password="secret" tokenauth="true";',
            "tokenauth is for .*ScramLoginModule, not for .*PlainLoginModule",
        ),
        (f'sasl.jaas.config={PLAIN} required username="secret";', "username, password or the ; at the end is missing"),
        (f'sasl.jaas.config={PLAIN} required username="a" password="secret"', "is missing"),
        ("sasl.jaas.config=", "write it as MODULE required"),
    ],
)
def test_value_that_cannot_be_used_is_refused_without_showing_secrets(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(WrongCall, match=message) as refused:
        read(tmp_path, text)
    assert "secret" not in str(refused.value)


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"cannot read .*gone: No such file"):
        read_command_config(str(tmp_path / "gone"), print)
