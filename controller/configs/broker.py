"""All broker configs by name.

The modules imported here define, by subject, those with an effect. `unsupported` has the rest of Kafka's: accepted and
shown without effect, so that existing properties files and tools work.
"""

from __future__ import annotations

from controller.configs.authorization_configs import AUTHORIZATION_CONFIGS
from controller.configs.definition import ConfigDef
from controller.configs.delegation_token_configs import DELEGATION_TOKEN_CONFIGS
from controller.configs.quota_configs import QUOTA_CONFIGS
from controller.configs.replication_configs import REPLICATION_CONFIGS
from controller.configs.sasl_configs import SASL_CONFIGS
from controller.configs.server_configs import SERVER_CONFIGS
from controller.configs.server_log_configs import SERVER_LOG_CONFIGS
from controller.configs.ssl_configs import SSL_CONFIGS
from controller.configs.transaction_configs import TRANSACTION_CONFIGS
from controller.configs.unsupported import UNSUPPORTED_CONFIGS

BROKER_CONFIGS: dict[str, ConfigDef] = {
    definition.name: definition
    for definition in (
        *SERVER_LOG_CONFIGS,
        *SERVER_CONFIGS,
        *TRANSACTION_CONFIGS,
        *AUTHORIZATION_CONFIGS,
        *SASL_CONFIGS,
        *DELEGATION_TOKEN_CONFIGS,
        *SSL_CONFIGS,
        *QUOTA_CONFIGS,
        *REPLICATION_CONFIGS,
        *UNSUPPORTED_CONFIGS,
    )
}
