"""Settings from environment variables, as other container images name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.__main__ import _settings
from broker.settings import Settings, SettingsError
from broker.startup.command_line import parse
from broker.startup.container import environment_settings
from storage.disk import OsDisk

IMAGE = {"BARNABAS_CONTAINER": "1"}


def started(*arguments: str, **environment: str) -> Settings:
    """Return the settings of `barnabas serve` in a container."""
    return _settings(parse(arguments), OsDisk(), IMAGE | environment)


def named(**environment: str) -> dict[str, str]:
    return {name: option.text for name, option in environment_settings(IMAGE | environment).items()}


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_RETENTION_HOURS", "log.retention.hours"),
        ("KAFKA_CFG_LOG_RETENTION_HOURS", "log.retention.hours"),
        ("KAFKA_LISTENER_NAME_IN__SIDE_MAX_CONNECTIONS", "listener.name.in_side.max.connections"),
        ("KAFKA_LISTENER_NAME_IN___SIDE_MAX_CONNECTIONS", "listener.name.in-side.max.connections"),
        ("KAFKA_CFG_LISTENER_NAME_SASL_SSL_MAX_CONNECTIONS", "listener.name.sasl_ssl.max.connections"),
        ("BARNABAS_FSYNC", "barnabas.fsync"),
        ("CLUSTER_ID", "barnabas.cluster.id"),
        ("KAFKA_KRAFT_CLUSTER_ID", "barnabas.cluster.id"),
    ],
)
def test_a_variable_is_a_setting(variable: str, name: str) -> None:
    assert named(**{variable: "x"}) == {name: "x"}


@pytest.mark.parametrize("variable", ["KAFKA_HEAP_OPTS", "KAFKA_VERSION", "BARNABAS_BROKERS", "BARNABAS_LOOP", "HOME"])
def test_variables_of_scripts_and_commands_are_ignored(variable: str) -> None:
    assert named(**{variable: "x"}) == {}


def test_variables_are_ignored_outside_container() -> None:
    assert environment_settings({"KAFKA_LOG_RETENTION_HOURS": "1"}) == {}


def test_two_variables_of_one_setting_must_agree() -> None:
    assert named(KAFKA_NODE_ID="3", KAFKA_CFG_NODE_ID="3") == {"node.id": "3"}
    with pytest.raises(SettingsError, match=r"KAFKA_CFG_NODE_ID and .*KAFKA_NODE_ID: both set node\.id; leave one out"):
        named(KAFKA_NODE_ID="3", KAFKA_CFG_NODE_ID="4")


def test_options_override_environment_and_environment_overrides_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlog.retention.hours=2\nlog.retention.minutes=2\nlog.dirs=/file\n")
    found = started(
        "--config",
        str(file),
        "-Dlog.retention.hours=4",
        KAFKA_LOG_RETENTION_HOURS="3",
        KAFKA_LOG_RETENTION_MINUTES="3",
        KAFKA_LOG_DIR="/environment",
    )
    assert (found["num.partitions"], found["log.retention.minutes"], found["log.retention.hours"]) == (2, 3, 4)
    assert found.log_dirs == ("/environment",)


def test_data_dir_defaults_to_volume_with_any_arguments() -> None:
    for arguments in ((), ("--topic", "letters"), ("-Dnum.partitions=3",)):
        assert started(*arguments).log_dirs == ("/var/lib/barnabas",)
    assert started("--data-dir", "/elsewhere").log_dirs == ("/elsewhere",)


def test_environment_listeners_replace_those_of_image() -> None:
    found = started(KAFKA_LISTENERS="INSIDE://broker:1", KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="INSIDE:PLAINTEXT")
    assert [str(one) for one in found.advertised_listeners] == ["INSIDE://broker:1"]
    advertised = started(KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://kafka:9092")
    assert [str(one) for one in advertised.listeners] == ["PLAINTEXT://0.0.0.0:9092"]
    assert [str(one) for one in advertised.advertised_listeners] == ["PLAINTEXT://kafka:9092"]


def test_setting_error_names_its_variable() -> None:
    with pytest.raises(SettingsError, match=r"^environment variable KAFKA_NUM_PARTITIONS: Invalid value many"):
        started(KAFKA_NUM_PARTITIONS="many")
    assert started(KAFKA_NUM_PARTITONS="3").unknown.keys() == {"num.partitons"}
