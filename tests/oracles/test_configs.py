"""Names, types, defaults and modes of all configurations, against those in Apache Kafka's jars."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from controller.configs import BROKER_CONFIGS, TOPIC_CONFIGS, ConfigDef
from controller.configs.topic import BROKER_SYNONYMS, SYNONYM_UNITS
from tests.oracles.apache_kafka import JVM, kafka_classpath

CONFIGS = Path(__file__).parent / "java" / "Configs.java"

# What Kafka wants to be told, and what has a default here.
DEFAULTS_HERE = {"node.id": "=1", "process.roles": "=broker,controller", "controller.listener.names": "=CONTROLLER"}

# What Kafka alters while it runs, and what takes a restart here.
FIXED_HERE = {"listeners", "listener.security.protocol.map", "producer.id.expiration.ms"}


class Described(NamedTuple):
    """A configuration as far as both sides describe it."""

    type: str
    default: str
    mode: str


@pytest.fixture(scope="module")
def kafka_says() -> dict[str, list[list[str]]]:
    command = [*JVM, "-cp", kafka_classpath(), str(CONFIGS)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    said: dict[str, list[list[str]]] = {"broker": [], "topic": [], "synonyms": []}
    for line in printed.splitlines():
        kind, *rest = line.split("\t")
        said[kind].append(rest)
    return said


def ours(definitions: dict[str, ConfigDef]) -> dict[str, Described]:
    return {
        name: Described(one.type.name, "none" if one.default is None else f"={one.default}", one.update_mode.value)
        for name, one in definitions.items()
        if not one.internal and not name.startswith("barnabas.")
    }


def test_brokers_have_kafka_s_configurations(kafka_says: dict[str, list[list[str]]]) -> None:
    kafkas = {name: Described(*rest) for name, *rest in kafka_says["broker"]}
    for name, default in DEFAULTS_HERE.items():
        assert kafkas[name].default == "required"
        kafkas[name] = kafkas[name]._replace(default=default)
    for name in FIXED_HERE:
        assert kafkas[name].mode != "read-only"
        kafkas[name] = kafkas[name]._replace(mode="read-only")
    assert ours(BROKER_CONFIGS) == kafkas


def test_topics_have_kafka_s_configurations(kafka_says: dict[str, list[list[str]]]) -> None:
    assert ours(TOPIC_CONFIGS) == {name: Described(*rest) for name, *rest in kafka_says["topic"]}


def test_topics_fall_back_to_the_same_configurations_of_brokers(kafka_says: dict[str, list[list[str]]]) -> None:
    kafkas = {name: list(zip(rest[::2], rest[1::2], strict=True)) for name, *rest in kafka_says["synonyms"]}
    assert kafkas == {
        name: [(synonym, str(SYNONYM_UNITS.get(synonym, 1))) for synonym in synonyms]
        for name, synonyms in BROKER_SYNONYMS.items()
    }
