"""Every configuration that the broker knows, and how the layers that may set it combine.

definition      names, types, parsing, checks; rows: many definitions as a table
topic           the topics' configurations and what each falls back to
broker          all of a broker's: broker_server, _log, _cleaner (acted on), reserved (accepted, in several modules)
group           those of single groups; client_metrics: of client metrics subscriptions
listener_names  settings of single listeners
conflicts       what cannot be set beside each other
alterations     what may be altered for brokers while they run
effective       the value that counts, and where it comes from
described       all of it as DescribeConfigs tells it
log_config      a topic's configurations as storage's LogConfig
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
