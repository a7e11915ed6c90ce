"""Configurations: every config that the broker knows, and how the layers that can set it combine.

definition      names, types, parsing, validators
config_table    many definitions as a table
topic           topic configs, and the broker configs that each falls back to
broker          all broker configs: server_configs, replication_configs, server_log_configs (with effect),
                unsupported (accepted without effect, in several modules)
group           group configs
client_metrics  configs of client metrics subscriptions
listener_names  settings of single listeners
conflicts       combinations that are not valid
alterations     changes that are valid for running brokers
effective       the effective value and its source
described       all configs as DescribeConfigs returns them
log_config      a topic's configs as storage's LogConfig
"""

from controller.configs.broker import BROKER_CONFIGS
from controller.configs.definition import ConfigDef, ConfigError, ConfigType, UpdateMode, parse_value
from controller.configs.topic import TOPIC_CONFIGS

__all__ = [
    "BROKER_CONFIGS",
    "TOPIC_CONFIGS",
    "ConfigDef",
    "ConfigError",
    "ConfigType",
    "UpdateMode",
    "parse_value",
]
