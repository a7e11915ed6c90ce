"""Kafka's configs of the newer group protocols, accepted without effect.

`controller.configs.config_table` explains the columns, `unsupported` the purpose.
"""

from controller.configs.config_table import table

_OF_EACH_KIND = """\
    group.KIND.assignment.interval.ms INT 1000 cluster-wide 0..
        Minimum interval between two assignments of a KIND group.
    group.KIND.heartbeat.interval.ms INT 5000 read-only 1..
        Interval of the heartbeats of KIND group members.
    group.KIND.max.assignment.interval.ms INT 15000 read-only 0..
        Maximum KIND.assignment.interval.ms of a group.
    group.KIND.max.heartbeat.interval.ms INT 15000 read-only 1..
        Maximum KIND.heartbeat.interval.ms of a group.
    group.KIND.max.session.timeout.ms INT 60000 read-only 1..
        Maximum KIND.session.timeout.ms of a group.
    group.KIND.min.assignment.interval.ms INT 0 read-only 0..
        Minimum KIND.assignment.interval.ms of a group.
    group.KIND.min.heartbeat.interval.ms INT 5000 read-only 1..
        Minimum KIND.heartbeat.interval.ms of a group.
    group.KIND.min.session.timeout.ms INT 45000 read-only 1..
        Minimum KIND.session.timeout.ms of a group.
    group.KIND.session.timeout.ms INT 45000 read-only 1..
        Time without a heartbeat after which a member is removed from a KIND group.
"""

_NEW_GROUP_CONFIGS = table(
    "".join(_OF_EACH_KIND.replace("KIND", kind) for kind in ("consumer", "share", "streams"))
    + """\
    group.consumer.assignors LIST uniform,range read-only some
        The server-side assignors of consumer groups; the first is the default.
    group.consumer.max.size INT 2147483647 read-only 1..
        Maximum number of members of a consumer group.
    group.consumer.migration.policy STRING bidirectional read-only DISABLED|DOWNGRADE|UPGRADE|BIDIRECTIONAL~
        The direction in which groups with members can change between the classic and the consumer protocol.
    group.share.assignors LIST simple read-only some
        The server-side assignors of share groups.
    group.share.delivery.count.limit INT 5 read-only 2..10
        Maximum number of deliveries of a record to a share group.
    group.share.max.delivery.count.limit INT 10 read-only 5..25
        Maximum share.delivery.count.limit of a group.
    group.share.max.partition.max.record.locks INT 4000 read-only 2000..10000
        Maximum share.partition.max.record.locks of a group.
    group.share.max.record.lock.duration.ms INT 60000 read-only 30000..3600000
        Maximum share.record.lock.duration.ms of a group.
    group.share.max.share.sessions INT 2000 read-only 1..
        Maximum number of share sessions.
    group.share.max.size INT 200 read-only 1..1000
        Maximum number of members of a share group.
    group.share.min.delivery.count.limit INT 2 read-only 2..5
        Minimum share.delivery.count.limit of a group.
    group.share.min.partition.max.record.locks INT 100 read-only 100..2000
        Minimum share.partition.max.record.locks of a group.
    group.share.min.record.lock.duration.ms INT 15000 read-only 1000..30000
        Minimum share.record.lock.duration.ms of a group.
    group.share.partition.max.record.locks INT 2000 read-only 100..10000
        Maximum number of records of a partition that a share group can have acquired at once.
    group.share.record.lock.duration.ms INT 30000 read-only 1000..3600000
        Time for which a share consumer holds a record before it is available to others again.
    group.streams.initial.rebalance.delay.ms INT 3000 read-only 0..
        Time that an empty streams group waits for more members before its first assignment.
    group.streams.max.size INT 2147483647 read-only 1..
        Maximum number of members of a streams group.
    group.streams.max.standby.replicas INT 2 read-only 0..
        Maximum streams.num.standby.replicas of a group.
    group.streams.num.standby.replicas INT 0 read-only 0..
        Number of standby copies of each task's state in a streams group.
    share.coordinator.append.linger.ms INT -1 read-only -1..
        Time that the share coordinator collects records for one batch; -1: while it has other work.
    share.coordinator.cached.buffer.max.bytes INT 1048588 cluster-wide 524288..
        Maximum size of buffers that the share coordinator keeps.
    share.coordinator.load.buffer.size INT 5242880 read-only 1..
        Bytes per read when the state of share groups is loaded.
    share.coordinator.snapshot.update.records.per.snapshot INT 500 read-only 0..500
        Number of update records of a share partition's state between two snapshots.
    share.coordinator.state.topic.compression.codec INT 0 read-only
        The codec of batches in __share_group_state: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    share.coordinator.state.topic.min.isr SHORT 2 read-only 1..
        The min.insync.replicas of __share_group_state.
    share.coordinator.state.topic.num.partitions INT 50 read-only 1..
        Number of partitions of __share_group_state; must not change once the topic exists.
    share.coordinator.state.topic.replication.factor SHORT 3 read-only 1..
        Replication factor of __share_group_state.
    share.coordinator.state.topic.segment.bytes INT 104857600 read-only 1..
        The segment.bytes of __share_group_state.
    share.coordinator.threads INT 1 read-only 1..
        Number of threads of the share coordinator.
    share.coordinator.write.timeout.ms INT 5000 read-only 1..
        Time that the share coordinator waits for the replicas of its writes.
    share.fetch.purgatory.purge.interval.requests INT 1000 read-only
        Number of completed share fetches after which they are purged from the purgatory.
    """,
    without_effect="the consumer, share and streams group protocols are not supported yet",
)

NEW_GROUP_CONFIGS = tuple(sorted(_NEW_GROUP_CONFIGS, key=lambda one: one.name))
