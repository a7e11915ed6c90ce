"""Every configuration that the broker knows, and how the layers that may set it combine.

definition     names, types, parsing, checks
topic          the topics' configurations and what each falls back to
broker         all of a broker's: broker_server and broker_log (acted on), reserved (accepted)
effective      the value that counts, and where it comes from
log_config     a topic's configurations as storage's LogConfig
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
