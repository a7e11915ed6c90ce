"""Broker configs of client quotas (Kafka: `QuotaConfig`).

`controller.configs.config_table` explains the columns. The quotas themselves are in the metadata.
"""

from controller.configs.config_table import table

QUOTA_CONFIGS = table(
    """
    controller.quota.window.num INT 11 read-only 1..
        Number of samples for the rate of controller mutations; together they limit a burst.
    controller.quota.window.size.seconds INT 1 read-only 1..
        Length of one of these samples.
    quota.window.num INT 11 read-only 1..
        Number of samples for the rates of a client.
    quota.window.size.seconds INT 1 read-only 1..
        Length of one of these samples.
    """
)
