"""References in settings, by Kafka's three providers."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.__main__ import _settings
from broker.settings import Settings, SettingsError
from broker.startup.command_line import parse
from storage.disk import OsDisk

PACKAGE = "org.apache.kafka.common.config.provider."
SECRET = "open sesame"


def started(folder: Path, settings: str, **environment: str) -> Settings:
    """Return the settings of `barnabas serve` with three providers and these further lines."""
    (folder / "server.properties").write_text(
        "listeners=PLAINTEXT://127.0.0.1:9092\n"
        "config.providers=secrets, each,env\n"
        f"config.providers.secrets.class={PACKAGE}FileConfigProvider\n"
        f"config.providers.each.class={PACKAGE}DirectoryConfigProvider\n"
        f"config.providers.env.class={PACKAGE}EnvVarConfigProvider\n" + settings
    )
    return _settings(parse(["--config", str(folder / "server.properties")]), OsDisk(), environment)


def test_references_have_the_values_of_files_and_variables(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text(f"key={SECRET}\nhost=127.0.0.1\n")
    (tmp_path / "whole").write_text("whole file")
    settings = started(
        tmp_path,
        f"delegation.token.secret.key=${{secrets:{tmp_path}/secrets:key}}\n"
        f"advertised.listeners=PLAINTEXT://${{secrets:{tmp_path}/secrets:host}}:${{env:PORT}}\n"
        f"ssl.key.password=${{each:{tmp_path}:whole}}\n"
        "ssl.principal.mapping.rules=RULE:^CN=(.*)$/${other:1}/\n",
        PORT="9192",
    )
    assert settings["delegation.token.secret.key"] == SECRET
    assert settings.advertised_listeners[0].port == 9192
    assert settings["ssl.key.password"] == "whole file"
    assert settings["ssl.principal.mapping.rules"] == "RULE:^CN=(.*)$/${other:1}/"  # no provider has that name
    assert settings.unknown == {}


@pytest.mark.parametrize("name", ["ssl.key.password", "listener.name.plaintext.plain.sasl.jaas.config"])
def test_password_with_a_reference_to_another_provider_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=rf"line 6: {name} has the reference .*, and config.providers has no secretz"
    ):
        started(tmp_path, f"{name}=${{secretz:KEY}}\n")


def test_secret_in_the_wrong_setting_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        started(tmp_path, "node.id=${env:KEY}\nlog.dirs=/a,/a${env:KEY}/..\n", KEY=SECRET)
    assert SECRET not in str(refused.value)
    assert "Invalid value ${env:KEY} for configuration node.id" in str(refused.value)


def test_without_providers_a_reference_is_text(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("ssl.key.password=${env:HOME}\n")
    settings = _settings(parse(["--config", str(tmp_path / "server.properties")]), OsDisk(), {"HOME": "/root"})
    assert settings["ssl.key.password"] == "${env:HOME}"


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("${secrets:/nowhere/secrets:key}", "/nowhere/secrets: No such file"),
        ("${secrets:FOLDER/secrets:other}", "FOLDER/secrets has no key other"),
        ("${secrets:FOLDER/damaged:key}", r"FOLDER/damaged: line 1: "),
        ("${secrets:FOLDER/binary:key}", "FOLDER/binary: not UTF-8 text"),
        ("${secrets:secrets:key}", "'secrets' is not an absolute path"),
        ("${secrets:key}", "'' is not an absolute path"),
        ("${secrets:FOLDER/large:key}", "FOLDER/large: larger than 1048576 bytes"),
        ("${each:FOLDER:../secrets}", "'../secrets' is not the name of a file"),
        ("${each:FOLDER:..}", "'..' is not the name of a file"),
        ("${each:FOLDER:}", "'' is not the name of a file"),
        ("${env:NOT_SET}", "there is no environment variable NOT_SET"),
        ("${env:/etc:HOME}", "an environment variable has no path"),
    ],
)
def test_reference_without_a_value_is_refused_with_its_place_and_reason(
    reference: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "secrets").write_text(f"key={SECRET}\n")
    (tmp_path / "damaged").write_text(f"key=\\u12 {SECRET}\n")
    (tmp_path / "binary").write_bytes(b"key=\xff")
    with open(tmp_path / "large", "wb") as large:
        large.truncate((1 << 20) + 1)
    reference, why = (text.replace("FOLDER", str(tmp_path)) for text in (reference, why))
    with pytest.raises(SettingsError) as refused:
        started(tmp_path, f"ssl.key.password={reference}\n", HOME=SECRET)
    message = str(refused.value)
    assert message.startswith(
        f"{tmp_path}/server.properties, line 6: ssl.key.password has the reference {reference}: {why}"
    )
    assert SECRET not in message


def test_references_are_limited_to_the_allowed_paths_and_variables(tmp_path: Path) -> None:
    for folder in ("allowed", "allowed-not"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text("key=value\n")
    limits = (
        f"config.providers.secrets.param.allowed.paths=/elsewhere, {tmp_path}/allowed/\n"
        f"config.providers.each.param.allowed.paths={tmp_path}/allowed/file\n"
        "config.providers.env.param.allowlist.pattern=BROKER_.*\n"
    )
    settings = started(
        tmp_path,
        limits + f"ssl.key.password=${{secrets:{tmp_path}/allowed/file:key}}${{each:{tmp_path}/allowed:file}}"
        "${env:BROKER_A}\n",
        BROKER_A="a",
    )
    assert settings["ssl.key.password"] == "valuekey=value\na"
    for reference, why in (
        (f"${{secrets:{tmp_path}/allowed/../allowed-not/file:key}}", f"{tmp_path}/allowed-not/file is not in allowed"),
        (f"${{each:{tmp_path}/allowed:other}}", f"{tmp_path}/allowed/other is not in allowed.paths"),
        ("${env:MY_BROKER_A}", "the variable MY_BROKER_A is not one of allowlist.pattern"),
    ):
        with pytest.raises(SettingsError, match=why):
            started(tmp_path, f"{limits}ssl.key.password={reference}\n", MY_BROKER_A="a")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("config.providers=vault\n", r"line 6: config.providers.vault.class is not set; set it to one of org\.apache"),
        (
            "config.providers.env.class=com.example.Vault\n",
            "line 6: config.providers.env.class=com.example.Vault is not",
        ),
        ("config.providers.env.param.allowlist.pattern=(\n", "line 6: .*pattern is not a regular expression"),
        ("config.providers.each.param.allowed.paths=secrets\n", "line 6: .*paths: secrets is not an absolute path"),
    ],
)
def test_invalid_provider_is_refused(settings: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=why):
        started(tmp_path, settings)
