"""Kafka's configurations that this broker accepts and shows, and on which it does not act.

A properties file written for Apache Kafka must not be refused, and tools list what Kafka lists; so each is known with
its type, default and check, under the reason why it has no effect. One that gets an effect moves to the module of its
subject. Here are those that belong to Kafka's own machinery; the larger subjects have modules of their own.
"""

from __future__ import annotations

from controller.configs.config_table import table
from controller.configs.unsupported_cluster import (
    CLUSTER_CONFIGS,
    DYNAMIC_QUORUM_CONFIGS,
    REPLICATION_RATE_CONFIGS,
    THROTTLE_CONFIGS,
    TIERED_CONFIGS,
)
from controller.configs.unsupported_groups import NEW_GROUP_CONFIGS, TRANSACTION_CONFIGS
from controller.configs.unsupported_security import SECURITY_CONFIGS

_IDLE_QUORUM_CONFIGS = table(
    """
    metadata.max.idle.interval.ms INT 500 read-only 0..
        How often the leader of an idle metadata log writes to it, so that everybody sees that it leads.
    """,
    without_effect="the metadata log of a single voter is not written to when there is nothing to say",
)

_THREAD_CONFIGS = table(
    """
    background.threads INT 10 cluster-wide 1..
        The threads for what is done from time to time.
    delete.records.purgatory.purge.interval.requests INT 1 read-only
        After how many finished DeleteRecords the list of the waiting is cleared of them.
    fetch.purgatory.purge.interval.requests INT 1000 read-only
        After how many finished fetches the list of the waiting is cleared of them.
    group.coordinator.append.linger.ms INT -1 read-only -1..
        How long the group coordinator gathers records for one batch; as long as it has others to do if -1.
    group.coordinator.background.threads INT 2 read-only 1..
        The threads that resolve the patterns to which groups subscribe.
    group.coordinator.cached.buffer.max.bytes INT 1048588 cluster-wide 524288..
        The size up to which the group coordinator keeps its buffers.
    group.coordinator.threads INT 4 read-only 1..
        The threads of the group coordinator.
    log.cleaner.threads INT 1 cluster-wide 0..
        The threads of the compactor.
    num.io.threads INT 8 cluster-wide 1..
        The threads that handle requests.
    num.network.threads INT 3 cluster-wide 1..
        The threads of each listener that read requests and write responses.
    num.recovery.threads.per.data.dir INT 2 cluster-wide 1..
        The threads of each data directory that recover logs at the start and sync them at the stop.
    num.replica.alter.log.dirs.threads INT null read-only
        The threads that move replicas between directories.
    producer.purgatory.purge.interval.requests INT 1000 read-only
        After how many finished produces the list of the waiting is cleared of them.
    queued.max.requests INT 500 read-only 1..
        How many requests may wait for a thread before no more are read.
    """,
    without_effect="this broker is one event loop and has no such threads, queues or buffers",
)

_SOCKET_CONFIGS = table(
    """
    max.connection.creation.rate INT 2147483647 cluster-wide 0..
        How many connections a second the broker accepts.
    """,
    without_effect="connections are accepted as fast as they come",
)

_JAVA_CONFIGS = table(
    """
    alter.config.policy.class.name CLASS null read-only
        The class that may refuse changes of settings.
    config.providers LIST '' cluster-wide
        Names of classes that fill in ${...} in settings.
    create.topic.policy.class.name CLASS null read-only
        The class that may refuse new topics.
    kafka.metrics.polling.interval.secs INT 10 read-only 1..
        How often the older reporters of metrics report.
    kafka.metrics.reporters LIST '' read-only
        The classes of the older reporters of metrics.
    metric.reporters LIST org.apache.kafka.common.metrics.JmxReporter cluster-wide
        The classes that report metrics.
    metrics.num.samples INT 2 read-only 1..
        The samples over which a metric is measured.
    metrics.recording.level STRING INFO read-only
        How detailed the metrics are.
    metrics.sample.window.ms LONG 30000 read-only 1..
        The length of one of these samples.
    """,
    without_effect="it names Java classes, or belongs to them",
)

_OTHER_CONFIGS = table(
    """
    group.coordinator.rebalance.protocols LIST classic,consumer,streams read-only consumer,classic,share,streams
        The group protocols that the broker offers, where the cluster's features allow them.
    """,
    without_effect="classic groups are always there, and the other protocols are not there yet",
)

_INTERNAL_CONFIGS = table(
    """
    controller.performance.always.log.threshold.ms LONG 2000 read-only 0..
        From how long on each step of the controller is logged.
    controller.performance.sample.period.ms LONG 60000 read-only 100..
        How often it is logged how long the controller's steps take.
    group.consumer.regex.refresh.interval.ms INT 600000 read-only 10000..
        How often it is looked which topics fit the patterns of consumer groups.
    group.share.initialize.retry.interval.ms INT 30000 read-only 1..
        The wait before the state of a share group is tried to be made again.
    group.share.persister.class.name STRING org.apache.kafka.server.share.persister.DefaultStatePersister read-only
        The class that stores the state of share groups.
    internal.metadata.delete.delay.millis LONG 60000 read-only
        How long the files of deleted segments of the metadata log stay.
    internal.metadata.log.segment.bytes INT null read-only
        Takes the place of metadata.log.segment.bytes without its lower limit.
    internal.metadata.max.batch.size.in.bytes INT 8388608 read-only
        The largest batch of the metadata log.
    remote.log.index.file.cache.ttl.ms LONG 900000 read-only -1..
        How long copies of unused indexes of tiered storage are kept.
    remote.log.manager.task.retry.backoff.max.ms LONG 30000 read-only 1..
        The longest wait before failed work on tiered storage is tried again.
    remote.log.manager.task.retry.backoff.ms LONG 500 read-only 1..
        The first wait before failed work on tiered storage is tried again.
    remote.log.manager.task.retry.jitter DOUBLE 0.2 read-only 0..0.5
        The part of that wait that is left to chance.
    server.max.startup.time.ms LONG 9223372036854775807 read-only 0..
        How long a start may take.
    share.coordinator.cold.partition.snapshot.interval.ms INT 300000 read-only 1..
        How often the state of idle share groups is stored wholly.
    share.coordinator.state.topic.prune.interval.ms INT 300000 read-only 1..
        How often the topic of share groups is cleared of what nobody needs.
    unstable.api.versions.enable BOOLEAN false read-only
        Whether versions of APIs are offered that are not released.
    unstable.feature.versions.enable BOOLEAN false read-only
        Whether levels of features are offered that are not released.
    """,
    without_effect="it is there for Apache Kafka's own tests",
    internal=True,
)

RESERVED_CONFIGS = (
    *SECURITY_CONFIGS,
    *TRANSACTION_CONFIGS,
    *NEW_GROUP_CONFIGS,
    *CLUSTER_CONFIGS,
    *DYNAMIC_QUORUM_CONFIGS,
    *THROTTLE_CONFIGS,
    *REPLICATION_RATE_CONFIGS,
    *TIERED_CONFIGS,
    *_IDLE_QUORUM_CONFIGS,
    *_THREAD_CONFIGS,
    *_SOCKET_CONFIGS,
    *_JAVA_CONFIGS,
    *_OTHER_CONFIGS,
    *_INTERNAL_CONFIGS,
)
