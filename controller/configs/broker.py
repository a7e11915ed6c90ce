"""Every configuration of a broker, by name.

Those that this broker acts on are defined in the modules imported here, by subject. `reserved` lists the rest of
Kafka's: they are accepted and shown, so that existing properties files and tools work, and have no effect.
"""

from __future__ import annotations

from controller.configs.broker_cleaner import CLEANER_CONFIGS
from controller.configs.broker_cluster import BROKER_CLUSTER_CONFIGS
from controller.configs.broker_log import LOG_CONFIGS
from controller.configs.broker_server import SERVER_CONFIGS
from controller.configs.definition import ConfigDef
from controller.configs.unsupported import RESERVED_CONFIGS

BROKER_CONFIGS: dict[str, ConfigDef] = {
    definition.name: definition
    for definition in (
        *LOG_CONFIGS,
        *CLEANER_CONFIGS,
        *SERVER_CONFIGS,
        *BROKER_CLUSTER_CONFIGS,
        *RESERVED_CONFIGS,
    )
}
