"""Configs of clusters of several brokers, accepted without effect; all but one are Kafka's.

`controller.configs.config_table` explains the columns, `unsupported` the purpose.
"""

from controller.configs.config_table import table

CLUSTER_CONFIGS = table(
    """
    controller.quorum.append.linger.ms INT 25 read-only 0..
        Time that the leader of the metadata log collects records before it writes them.
    log.dir.failure.timeout.ms LONG 30000 read-only 1..
        Time after which a broker stops if it cannot report a failed directory to the controller.
    num.replica.fetchers INT 1 cluster-wide 1..
        Number of connections to each other broker for replica fetches.
    replica.selector.class STRING null read-only
        The class that selects the replica from which a consumer reads.
    replica.socket.receive.buffer.bytes INT 65536 read-only
        Size of the receive buffer of connections between brokers.
    socket.connection.setup.timeout.max.ms LONG 30000 read-only
        Maximum timeout for connecting to another broker, after several failures.
    """,
    without_effect="this is not supported yet",
)

DYNAMIC_QUORUM_CONFIGS = table(
    """
    controller.quorum.auto.join.enable BOOLEAN false read-only
        Whether a controller joins a quorum as a voter by itself.
    controller.quorum.bootstrap.servers LIST '' read-only
        Addresses to discover the quorum's leader, as host:port.
    """,
    without_effect="voters do not change yet: controller.quorum.voters names them",
)

QUOTA_CALLBACK_CONFIGS = table(
    """
    client.quota.callback.class CLASS null read-only
        The class that determines a client's quotas.
    """,
    without_effect="it names Java classes, or belongs to them",
)

TIERED_CONFIGS = table(
    """
    follower.fetch.last.tiered.offset.enable BOOLEAN false cluster-wide
        Whether an empty follower starts after the records in tiered storage.
    log.local.retention.bytes LONG -2 cluster-wide -2..
        The local.retention.bytes of topics that set none.
    log.local.retention.ms LONG -2 cluster-wide -2..
        The local.retention.ms of topics that set none.
    remote.fetch.max.wait.ms INT 500 cluster-wide 1..
        Maximum time that a fetch waits for tiered storage.
    remote.list.offsets.request.timeout.ms LONG 30000 cluster-wide 1..
        Maximum time that ListOffsets waits for tiered storage.
    remote.log.index.file.cache.total.size.bytes LONG 1073741824 cluster-wide 1..
        Maximum size of cached indexes of tiered storage.
    remote.log.manager.copier.thread.pool.size INT 10 cluster-wide 1..
        Number of threads that upload segments.
    remote.log.manager.copy.max.bytes.per.second LONG 9223372036854775807 cluster-wide 1..
        Maximum rate of uploads, in bytes per second.
    remote.log.manager.copy.quota.window.num INT 11 read-only 1..
        Number of samples for the rate of uploads.
    remote.log.manager.copy.quota.window.size.seconds INT 1 read-only 1..
        Length of one of these samples.
    remote.log.manager.expiration.thread.pool.size INT 10 cluster-wide 1..
        Number of threads that delete segments from tiered storage.
    remote.log.manager.fetch.max.bytes.per.second LONG 9223372036854775807 cluster-wide 1..
        Maximum rate of reads from tiered storage, in bytes per second.
    remote.log.manager.fetch.quota.window.num INT 11 read-only 1..
        Number of samples for the rate of reads.
    remote.log.manager.fetch.quota.window.size.seconds INT 1 read-only 1..
        Length of one of these samples.
    remote.log.manager.follower.thread.pool.size INT 2 cluster-wide 1..
        Number of threads for followers' tasks of tiered storage.
    remote.log.manager.task.interval.ms LONG 30000 read-only 1..
        Interval of the check for segments to upload and to delete.
    remote.log.manager.thread.pool.size INT 2 read-only 1..
        Number of threads that schedule the tasks of tiered storage.
    remote.log.metadata.custom.metadata.max.bytes INT 128 read-only 0..
        Maximum size of a storage plug-in's metadata about a segment.
    remote.log.metadata.manager.class.name STRING org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager read-only nonempty
        The class that manages the metadata of tiered storage.
    remote.log.metadata.manager.class.path STRING null read-only
        The path of that class.
    remote.log.metadata.manager.impl.prefix STRING rlmm.config. read-only nonempty
        Prefix of that class's settings.
    remote.log.metadata.manager.listener.name STRING null read-only nonempty
        The listener through which that class connects to brokers.
    remote.log.reader.max.pending.tasks INT 100 read-only 1..
        Maximum number of pending reads from tiered storage.
    remote.log.reader.threads INT 10 cluster-wide 1..
        Number of threads that read from tiered storage.
    remote.log.storage.manager.class.name STRING null read-only nonempty
        The class that stores segments in tiered storage.
    remote.log.storage.manager.class.path STRING null read-only
        The path of that class.
    remote.log.storage.manager.impl.prefix STRING rsm.config. read-only nonempty
        Prefix of that class's settings.
    remote.log.storage.system.enable BOOLEAN false read-only
        Whether tiered storage is enabled.
    """,  # noqa: E501
    without_effect="tiered storage is not supported yet",
)
