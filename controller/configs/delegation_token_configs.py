"""Broker configs of delegation tokens (Kafka: `DelegationTokenManagerConfigs`).

`controller.configs.config_table` explains the columns.
"""

from controller.configs.config_table import table

DELEGATION_TOKEN_CONFIGS = table(
    """
    delegation.token.expiry.check.interval.ms LONG 3600000 read-only 1..
        Interval at which expired delegation tokens are removed.
    delegation.token.expiry.time.ms LONG 86400000 read-only 1..
        Time after which a delegation token expires unless it is renewed.
    delegation.token.max.lifetime.ms LONG 604800000 read-only 1..
        Maximum lifetime of a delegation token with renewals.
    delegation.token.secret.key PASSWORD null read-only
        The secret from which delegation tokens are derived, the same on all brokers and controllers; no tokens without one.
    """  # noqa: E501
)
