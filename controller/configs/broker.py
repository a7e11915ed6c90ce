"""All broker configs by name.

The modules imported here define, by subject, those with an effect. `unsupported` has the rest of Kafka's: accepted and
shown without effect, so that existing properties files and tools work.
"""

from __future__ import annotations

from controller.configs.broker_cluster import BROKER_CLUSTER_CONFIGS
from controller.configs.broker_log import LOG_CONFIGS
from controller.configs.broker_server import SERVER_CONFIGS
from controller.configs.definition import ConfigDef
from controller.configs.unsupported import RESERVED_CONFIGS

BROKER_CONFIGS: dict[str, ConfigDef] = {
    definition.name: definition
    for definition in (
        *LOG_CONFIGS,
        *SERVER_CONFIGS,
        *BROKER_CLUSTER_CONFIGS,
        *RESERVED_CONFIGS,
    )
}
