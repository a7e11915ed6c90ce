"""Broker configs of quotas (Kafka: `QuotaConfig`).

`controller.configs.config_table` explains the columns. The quotas of clients are in the metadata.
"""

from controller.configs.config_table import table

_PUBLIC = table(
    """
    alter.log.dirs.replication.quota.window.num INT 11 read-only 1..
        Number of samples for the rate of moves between directories, of which there is a metric.
    alter.log.dirs.replication.quota.window.size.seconds INT 1 read-only 1..
        Length of one of these samples.
    controller.quota.window.num INT 11 read-only 1..
        Number of samples for the rate of controller mutations; together they limit a burst.
    controller.quota.window.size.seconds INT 1 read-only 1..
        Length of one of these samples.
    quota.window.num INT 11 read-only 1..
        Number of samples for the rates of a client.
    quota.window.size.seconds INT 1 read-only 1..
        Length of one of these samples.
    replication.quota.window.num INT 11 read-only 1..
        Number of samples for the rate of throttled replicas.
    replication.quota.window.size.seconds INT 1 read-only 1..
        Length of one of these samples.
    """
)

_INTERNAL = table(
    """
    follower.replication.throttled.rate LONG null cluster-wide 0..
        Maximum rate of throttled replicas on the followers' side, in bytes per second.
    leader.replication.throttled.rate LONG null cluster-wide 0..
        Maximum rate of throttled replicas on the leaders' side, in bytes per second.
    """,
    internal=True,  # as in Kafka, where a properties file cannot set them
)

QUOTA_CONFIGS = (*_PUBLIC, *_INTERNAL)
