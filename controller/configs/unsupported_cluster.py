"""The configurations of what a cluster of several brokers does, accepted without effect; all but one are Kafka's.

Columns as `controller.configs.rows` has them; `reserved` says what becomes of them.
"""

from __future__ import annotations

from controller.configs.config_table import table

CLUSTER_CONFIGS = table(
    """
    controller.quorum.append.linger.ms INT 25 read-only 0..
        How long the leader of the metadata log gathers records before it writes them.
    log.dir.failure.timeout.ms LONG 30000 read-only 1..
        How long a broker goes on that cannot tell the controller of a failed directory.
    num.replica.fetchers INT 1 cluster-wide 1..
        The connections to each other broker from which replicas are fetched.
    replica.selector.class STRING null read-only
        The class that chooses from which replica a consumer reads.
    replica.socket.receive.buffer.bytes INT 65536 read-only
        The receive buffer of connections between brokers.
    socket.connection.setup.timeout.max.ms LONG 30000 read-only
        The longest time that a connection to another broker may take to begin, after several failures.
    """,
    without_effect="this is not built yet, and a cluster does without",
)

DYNAMIC_QUORUM_CONFIGS = table(
    """
    controller.quorum.auto.join.enable BOOLEAN false read-only
        Whether a controller makes itself a voter of a quorum that it is not in.
    controller.quorum.bootstrap.servers LIST '' read-only
        Where the quorum is asked for who leads it, as host:port.
    """,
    without_effect="voters do not change yet: controller.quorum.voters names them",
)

THROTTLE_CONFIGS = table(
    """
    alter.log.dirs.replication.quota.window.num INT 11 read-only 1..
        The samples over which the rate of moves between directories is measured.
    alter.log.dirs.replication.quota.window.size.seconds INT 1 read-only 1..
        The length of one of these samples.
    client.quota.callback.class CLASS null read-only
        The class that says which quota a client has.
    controller.quota.window.num INT 11 read-only 1..
        The samples over which the rate of changes to topics is measured.
    controller.quota.window.size.seconds INT 1 read-only 1..
        The length of one of these samples.
    quota.window.num INT 11 read-only 1..
        The samples over which a client's use is measured.
    quota.window.size.seconds INT 1 read-only 1..
        The length of one of these samples.
    replication.quota.window.num INT 11 read-only 1..
        The samples over which the rate of replication is measured.
    replication.quota.window.size.seconds INT 1 read-only 1..
        The length of one of these samples.
    """,
    without_effect="nobody is throttled yet",
)

REPLICATION_RATE_CONFIGS = table(
    """
    follower.replication.throttled.rate LONG null cluster-wide 0..
        The bytes a second that throttled replicas are fetched with, on the followers' side.
    leader.replication.throttled.rate LONG null cluster-wide 0..
        The bytes a second that throttled replicas are fetched with, on the leaders' side.
    """,
    without_effect="nobody is throttled yet",
    internal=True,  # as in Kafka, where they are no settings of the file
)

TIERED_CONFIGS = table(
    """
    follower.fetch.last.tiered.offset.enable BOOLEAN false cluster-wide
        Whether an empty follower begins behind what is in tiered storage already.
    log.local.retention.bytes LONG -2 cluster-wide -2..
        The local.retention.bytes of topics that set none.
    log.local.retention.ms LONG -2 cluster-wide -2..
        The local.retention.ms of topics that set none.
    remote.fetch.max.wait.ms INT 500 cluster-wide 1..
        How long a fetch waits for records from tiered storage.
    remote.list.offsets.request.timeout.ms LONG 30000 cluster-wide 1..
        How long a search for a timestamp waits for tiered storage.
    remote.log.index.file.cache.total.size.bytes LONG 1073741824 cluster-wide 1..
        The space for copies of the indexes of segments in tiered storage.
    remote.log.manager.copier.thread.pool.size INT 10 cluster-wide 1..
        The threads that upload segments.
    remote.log.manager.copy.max.bytes.per.second LONG 9223372036854775807 cluster-wide 1..
        The bytes a second that are uploaded.
    remote.log.manager.copy.quota.window.num INT 11 read-only 1..
        The samples over which the rate of uploads is measured.
    remote.log.manager.copy.quota.window.size.seconds INT 1 read-only 1..
        The length of one of these samples.
    remote.log.manager.expiration.thread.pool.size INT 10 cluster-wide 1..
        The threads that delete segments from tiered storage.
    remote.log.manager.fetch.max.bytes.per.second LONG 9223372036854775807 cluster-wide 1..
        The bytes a second that are read from tiered storage.
    remote.log.manager.fetch.quota.window.num INT 11 read-only 1..
        The samples over which the rate of reads is measured.
    remote.log.manager.fetch.quota.window.size.seconds INT 1 read-only 1..
        The length of one of these samples.
    remote.log.manager.follower.thread.pool.size INT 2 cluster-wide 1..
        The threads that do what followers have to do for tiered storage.
    remote.log.manager.task.interval.ms LONG 30000 read-only 1..
        How often it is looked for segments to upload and to delete.
    remote.log.manager.thread.pool.size INT 2 read-only 1..
        The threads that schedule the work on tiered storage.
    remote.log.metadata.custom.metadata.max.bytes INT 128 read-only 0..
        The most bytes that a storage plug-in may keep about a segment.
    remote.log.metadata.manager.class.name STRING org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager read-only named
        The class that remembers what is in tiered storage.
    remote.log.metadata.manager.class.path STRING null read-only
        Where that class is.
    remote.log.metadata.manager.impl.prefix STRING rlmm.config. read-only named
        What the names of that class's own settings begin with.
    remote.log.metadata.manager.listener.name STRING null read-only named
        The listener by which that class reaches the brokers.
    remote.log.reader.max.pending.tasks INT 100 read-only 1..
        How many reads from tiered storage may wait.
    remote.log.reader.threads INT 10 cluster-wide 1..
        The threads that read from tiered storage.
    remote.log.storage.manager.class.name STRING null read-only named
        The class that stores segments elsewhere.
    remote.log.storage.manager.class.path STRING null read-only
        Where that class is.
    remote.log.storage.manager.impl.prefix STRING rsm.config. read-only named
        What the names of that class's own settings begin with.
    remote.log.storage.system.enable BOOLEAN false read-only
        Whether the broker has tiered storage.
    """,  # noqa: E501
    without_effect="tiered storage is not there yet",
)
