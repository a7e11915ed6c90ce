"""Names, types, defaults, modes and accepted values of all configurations, against those in Apache Kafka's jars."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from controller.configs import BROKER_CONFIGS, TOPIC_CONFIGS, ConfigDef, ConfigError, ConfigType, parse_value
from controller.configs.client_metrics import CLIENT_METRICS_CONFIGS
from controller.configs.definition import format_value
from controller.configs.group import GROUP_CONFIGS, broker_synonym
from controller.configs.topic import BROKER_SYNONYMS, SYNONYM_UNITS
from tests.oracles.apache_kafka import JVM, kafka_classpath

CONFIGS = Path(__file__).parent / "java" / "Configs.java"

SETS: dict[str, Mapping[str, ConfigDef]] = {
    "broker": BROKER_CONFIGS,
    "topic": TOPIC_CONFIGS,
    "group": GROUP_CONFIGS,
    "client metrics": CLIENT_METRICS_CONFIGS,
}

# Settings that Kafka requires, and that have a default here.
DEFAULTS_HERE = {"node.id": "=1", "process.roles": "=broker,controller", "controller.listener.names": "=CONTROLLER"}

# Settings that Kafka alters dynamically, and that need a restart here.
FIXED_HERE = {"listeners", "listener.security.protocol.map"}

# Kafka knows their names and types, but not as settings of its file.
RATES = {
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}

# Kafka's authorizer reads them from the file; they are no settings of its broker.
OF_AUTHORIZER = {"super.users": "STRING", "allow.everyone.if.no.acl.found": "BOOLEAN"}

TEXTS = (
    *("-131073", "-131072", "-3", "-2", "-1", "0", "1", "2", "4", "5", "9", "10", "17", "22", "23", "25", "26", "100"),
    *("1000", "3600", "3601", "86401", "1048575", "1048576", "2147483647", "2147483648", "9223372036854775808", "+5"),
    *("1.5", "1e3", "0.25", " 7 ", "1_0", "0x5", "true", "FALSE", "maybe", "", " ", "a", "a,b", "a,,b", "a, b", "*"),
    *("0:1,1:2", "0:x", "gzip", "GZIP", "delete", "compact,delete", "CreateTime", "earliest", "by_duration:PT5M"),
    *("read_committed", "upgrade", "rs256", "SSL", "required", "broker", "share,classic"),
)

# Validated elsewhere, or with other messages: the quorum's voters, limits by host, the codec's number. And what Kafka
# does not validate: segments of 0 bytes.
OTHERWISE_CHECKED = {
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "internal.segment.bytes",
    "max.connections.per.ip.overrides",
    "offsets.topic.compression.codec",
}


class Described(NamedTuple):
    """The part of a configuration that both sides describe."""

    type: str
    default: str
    mode: str
    visibility: str


Shown = dict[str, list[list[str]]]


@pytest.fixture(scope="module")
def kafka_says() -> Shown:
    command = [*JVM, "-cp", kafka_classpath(), str(CONFIGS), *TEXTS]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shown: Shown = {"tried": [], "synonyms": [], "group synonym": [], **{name: [] for name in SETS}}
    for line in printed.splitlines():
        kind, *rest = line.split("\t")
        shown[kind].append(rest)
    return shown


def ours(definitions: Mapping[str, ConfigDef], *, with_modes: bool) -> dict[str, Described]:
    return {
        name: Described(
            one.type.name,
            "none" if one.default is None else f"={one.default}",
            one.update_mode.value if with_modes else "read-only",
            "internal" if one.internal else "public",
        )
        for name, one in definitions.items()
        if not name.startswith("barnabas.")
    }


def test_broker_configs_are_kafkas(kafka_says: Shown) -> None:
    kafkas = {name: Described(*rest) for name, *rest in kafka_says["broker"]}
    for name, default in DEFAULTS_HERE.items():
        assert kafkas[name].default == "required"
        kafkas[name] = kafkas[name]._replace(default=default)
    for name in FIXED_HERE:
        assert kafkas[name].mode != "read-only"
        kafkas[name] = kafkas[name]._replace(mode="read-only")
    for name in RATES:
        assert name not in kafkas
        kafkas[name] = Described("LONG", "none", "cluster-wide", "internal")
    for name, kind in OF_AUTHORIZER.items():
        assert name not in kafkas
        kafkas[name] = Described(kind, f"={BROKER_CONFIGS[name].default}", "read-only", "public")
    assert ours(BROKER_CONFIGS, with_modes=True) == kafkas


@pytest.mark.parametrize("kind", ["topic", "group", "client metrics"])
def test_other_resources_have_kafkas_configs(kafka_says: Shown, kind: str) -> None:
    kafkas = {name: Described(*rest) for name, *rest in kafka_says[kind]}
    assert ours(SETS[kind], with_modes=False) == kafkas


def test_topics_fall_back_to_the_same_configurations_of_brokers(kafka_says: Shown) -> None:
    kafkas = {name: list(zip(rest[::2], rest[1::2], strict=True)) for name, *rest in kafka_says["synonyms"]}
    assert kafkas == {
        name: [(synonym, str(SYNONYM_UNITS.get(synonym, 1))) for synonym in synonyms]
        for name, synonyms in BROKER_SYNONYMS.items()
        if not name.startswith("barnabas.")
    }


def test_groups_fall_back_to_the_same_configurations_of_brokers(kafka_says: Shown) -> None:
    assert dict(kafka_says["group synonym"]) == {name: broker_synonym(name) or "none" for name in GROUP_CONFIGS}


@pytest.mark.parametrize("kind", SETS)
def test_text_gives_the_same_value_or_the_same_error_message(kafka_says: Shown, kind: str) -> None:
    differ = []
    for _, name, text, kafkas in (tried for tried in kafka_says["tried"] if tried[0] == kind):
        definition = SETS[kind][name]
        if name in OTHERWISE_CHECKED:
            continue
        try:
            found = f"={format_value(parse_value(definition, text))}"
        except ConfigError as error:
            found = str(error)
        if found != kafkas and definition.type is not ConfigType.PASSWORD:
            differ.append((name, text, kafkas, found))
    assert differ == []
