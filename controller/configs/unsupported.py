"""Kafka's configs that this broker accepts and shows without effect.

Properties files written for Apache Kafka must work, and tools list what Kafka lists; so each config is defined with its
type, default and validator, under the reason why it has no effect. One that gets an effect moves to the module of its
subject. This module has those of Kafka's own machinery; larger subjects have modules of their own.
"""

from __future__ import annotations

from controller.configs.config_table import table
from controller.configs.unsupported_cluster import (
    CLUSTER_CONFIGS,
    DYNAMIC_QUORUM_CONFIGS,
    QUOTA_CALLBACK_CONFIGS,
    TIERED_CONFIGS,
)
from controller.configs.unsupported_groups import NEW_GROUP_CONFIGS
from controller.configs.unsupported_security import SECURITY_CONFIGS

_IDLE_QUORUM_CONFIGS = table(
    """
    metadata.max.idle.interval.ms INT 500 read-only 0..
        Interval at which the leader of an idle metadata log writes to it, to show that it leads.
    """,
    without_effect="an idle metadata log is not written to",
)

_EARLY_START_CONFIGS = table(
    """
    early.start.listeners LIST null read-only
        Listeners that serve clients before the authorizer is ready.
    """,
    without_effect="listeners of controllers, and only these, serve super users before the ACLs are loaded",
)

_THREAD_CONFIGS = table(
    """
    background.threads INT 10 cluster-wide 1..
        Number of threads for background tasks.
    delete.records.purgatory.purge.interval.requests INT 1 read-only
        Number of completed DeleteRecords after which they are purged from the purgatory.
    fetch.purgatory.purge.interval.requests INT 1000 read-only
        Number of completed fetches after which they are purged from the purgatory.
    group.coordinator.append.linger.ms INT -1 read-only -1..
        Time that the group coordinator collects records for one batch; -1: while it has other work.
    group.coordinator.background.threads INT 2 read-only 1..
        Number of threads that resolve the patterns of subscriptions.
    group.coordinator.cached.buffer.max.bytes INT 1048588 cluster-wide 524288..
        Maximum size of buffers that the group coordinator keeps.
    group.coordinator.threads INT 4 read-only 1..
        Number of threads of the group coordinator.
    log.cleaner.threads INT 1 cluster-wide 0..
        Number of cleaner threads.
    num.io.threads INT 8 cluster-wide 1..
        Number of threads that handle requests.
    num.network.threads INT 3 cluster-wide 1..
        Number of threads of each listener that read requests and write responses.
    num.recovery.threads.per.data.dir INT 2 cluster-wide 1..
        Number of threads of each data directory that recover logs at the start and flush them at the stop.
    num.replica.alter.log.dirs.threads INT null read-only
        Number of threads that move replicas between directories.
    producer.purgatory.purge.interval.requests INT 1000 read-only
        Number of completed produce requests after which they are purged from the purgatory.
    queued.max.requests INT 500 read-only 1..
        Maximum number of requests that wait for a thread.
    """,
    without_effect="this broker is one event loop and has no such threads, queues or buffers",
)

_JAVA_CONFIGS = table(
    """
    alter.config.policy.class.name CLASS null read-only
        The class that can refuse config changes.
    create.topic.policy.class.name CLASS null read-only
        The class that can refuse new topics.
    kafka.metrics.polling.interval.secs INT 10 read-only 1..
        Interval of the reports of kafka.metrics.reporters.
    kafka.metrics.reporters LIST '' read-only
        The reporters of Yammer metrics.
    metric.reporters LIST org.apache.kafka.common.metrics.JmxReporter cluster-wide
        The classes that report metrics.
    metrics.recording.level STRING INFO read-only
        The level of detail of the metrics.
    """,
    without_effect="it names Java classes, or belongs to them",
)

POLICY_CLASSES = {
    "alter.config.policy.class.name": "changes of configs are not checked by it",
    "client.quota.callback.class": "quotas are only those that are set as configs",
    "create.topic.policy.class.name": "new topics are not checked by it",
}
"""What it means that each class is ignored, whose users rely on it for what it refuses or limits."""

_OTHER_CONFIGS = table(
    """
    group.coordinator.rebalance.protocols LIST classic,consumer,streams read-only consumer,classic,share,streams
        The enabled group protocols, as far as the cluster's features allow them.
    """,
    without_effect="the classic protocol is always enabled, and the others are not supported yet",
)

_INTERNAL_CONFIGS = table(
    """
    controller.performance.always.log.threshold.ms LONG 2000 read-only 0..
        Duration from which on each event of the controller is logged.
    controller.performance.sample.period.ms LONG 60000 read-only 100..
        Interval at which the durations of the controller's events are logged.
    group.consumer.regex.refresh.interval.ms INT 600000 read-only 10000..
        Interval at which the topics that match consumer groups' patterns are resolved again.
    group.share.initialize.retry.interval.ms INT 30000 read-only 1..
        Wait before the initialization of a share group's state is retried.
    group.share.persister.class.name STRING org.apache.kafka.server.share.persister.DefaultStatePersister read-only
        The class that stores the state of share groups.
    internal.metadata.delete.delay.millis LONG 60000 read-only
        Time for which the files of deleted segments of the metadata log stay.
    internal.metadata.log.segment.bytes INT null read-only
        Replaces metadata.log.segment.bytes, without its lower limit.
    internal.metadata.max.batch.size.in.bytes INT 8388608 read-only
        Maximum size of a batch of the metadata log.
    remote.log.index.file.cache.ttl.ms LONG 900000 read-only -1..
        Time for which unused cached indexes of tiered storage are kept.
    remote.log.manager.task.retry.backoff.max.ms LONG 30000 read-only 1..
        Maximum wait before a failed task of tiered storage is retried.
    remote.log.manager.task.retry.backoff.ms LONG 500 read-only 1..
        First wait before a failed task of tiered storage is retried.
    remote.log.manager.task.retry.jitter DOUBLE 0.2 read-only 0..0.5
        Random fraction of that wait.
    server.max.startup.time.ms LONG 9223372036854775807 read-only 0..
        Maximum time that a start can take.
    share.coordinator.cold.partition.snapshot.interval.ms INT 300000 read-only 1..
        Interval of the snapshots of idle share partitions.
    share.coordinator.state.topic.prune.interval.ms INT 300000 read-only 1..
        Interval at which unneeded records of __share_group_state are deleted.
    unstable.api.versions.enable BOOLEAN false read-only
        Whether unreleased versions of APIs are enabled.
    unstable.feature.versions.enable BOOLEAN false read-only
        Whether unreleased levels of features are enabled.
    """,
    without_effect="it is internal to Apache Kafka",
    internal=True,
)

UNSUPPORTED_CONFIGS = (
    *SECURITY_CONFIGS,
    *_EARLY_START_CONFIGS,
    *NEW_GROUP_CONFIGS,
    *CLUSTER_CONFIGS,
    *DYNAMIC_QUORUM_CONFIGS,
    *QUOTA_CALLBACK_CONFIGS,
    *TIERED_CONFIGS,
    *_IDLE_QUORUM_CONFIGS,
    *_THREAD_CONFIGS,
    *_JAVA_CONFIGS,
    *_OTHER_CONFIGS,
    *_INTERNAL_CONFIGS,
)
