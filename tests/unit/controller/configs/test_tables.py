"""Consistency of the configuration tables."""

from __future__ import annotations

import re
from pathlib import Path

import controller
from broker.quotas.replication_quota import FOLLOWER_REPLICAS, LEADER_REPLICAS
from controller.configs import BROKER_CONFIGS, TOPIC_CONFIGS, parse_value
from controller.configs.client_metrics import CLIENT_METRICS_CONFIGS
from controller.configs.group import GROUP_CONFIGS
from controller.configs.topic import BROKER_SYNONYM_NAMES, BROKER_SYNONYMS, SYNONYM_UNITS
from storage.log.config import LogConfig

SETS = (BROKER_CONFIGS, TOPIC_CONFIGS, GROUP_CONFIGS, CLIENT_METRICS_CONFIGS)
ALL = [definition for definitions in SETS for definition in definitions.values()]
ROOT = Path(controller.__file__).parent.parent


def test_every_default_is_a_value_of_its_type_that_its_check_accepts() -> None:
    for definition in ALL:
        parse_value(definition, definition.default)


def test_every_configuration_is_documented_in_sentences() -> None:
    for definition in ALL:
        assert definition.documentation[0].isupper(), definition.name
        assert definition.documentation.endswith("."), definition.name


def test_no_name_is_defined_twice() -> None:
    from controller.configs.authorization_configs import AUTHORIZATION_CONFIGS
    from controller.configs.delegation_token_configs import DELEGATION_TOKEN_CONFIGS
    from controller.configs.quota_configs import QUOTA_CONFIGS
    from controller.configs.replication_configs import REPLICATION_CONFIGS
    from controller.configs.sasl_configs import SASL_CONFIGS
    from controller.configs.server_configs import SERVER_CONFIGS
    from controller.configs.server_log_configs import SERVER_LOG_CONFIGS
    from controller.configs.ssl_configs import SSL_CONFIGS
    from controller.configs.transaction_configs import TRANSACTION_CONFIGS
    from controller.configs.unsupported import UNSUPPORTED_CONFIGS

    tables = (
        *(SERVER_LOG_CONFIGS, SERVER_CONFIGS, REPLICATION_CONFIGS, TRANSACTION_CONFIGS, AUTHORIZATION_CONFIGS),
        SASL_CONFIGS,
        DELEGATION_TOKEN_CONFIGS,
        SSL_CONFIGS,
        QUOTA_CONFIGS,
        UNSUPPORTED_CONFIGS,
    )
    names = [definition.name for table in tables for definition in table]
    assert len(names) == len(set(names)) == len(BROKER_CONFIGS)


def test_topics_fall_back_to_configurations_of_brokers_with_the_same_default() -> None:
    for name, synonyms in BROKER_SYNONYMS.items():
        defaults = [
            str(int(default) * SYNONYM_UNITS[synonym]) if synonym in SYNONYM_UNITS else default
            for synonym in synonyms
            if (default := BROKER_CONFIGS[synonym].default) is not None
        ]
        assert defaults == [TOPIC_CONFIGS[name].default], name


def source(*folders: str) -> str:
    return "".join(path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py"))


def test_configs_with_an_effect_are_read_and_the_others_are_not() -> None:
    read = source("broker", "storage", "controller/commands")
    for definition in BROKER_CONFIGS.values():
        if definition.name not in BROKER_SYNONYM_NAMES:
            assert (f'"{definition.name}"' in read) == definition.effective, definition.name


def test_log_configs_with_an_effect_are_read_by_logs_and_the_others_are_not() -> None:
    read = source("broker", "storage")
    names = {field: field.replace("_", ".") for field in LogConfig._fields} | {
        "timestamp_type": "message.timestamp.type"
    }
    for field, name in names.items():
        assert bool(re.search(rf"\.{field}\b", read)) == TOPIC_CONFIGS[name].effective, name
    elsewhere = {name for name, one in TOPIC_CONFIGS.items() if one.effective} - set(names.values())
    assert elsewhere == {
        "unclean.leader.election.enable",
        "internal.segment.bytes",
        LEADER_REPLICAS,
        FOLLOWER_REPLICAS,
    }


def test_broker_synonym_has_an_effect_if_the_topic_config_has() -> None:
    for name, synonyms in BROKER_SYNONYMS.items():
        for synonym in synonyms:
            assert BROKER_CONFIGS[synonym].effective == TOPIC_CONFIGS[name].effective, synonym
