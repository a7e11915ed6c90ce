"""Kafka's configurations of transactions and of the newer group protocols, accepted without effect.

Columns as `controller.configs.rows` has them; `reserved` says what becomes of them.
"""

from __future__ import annotations

from controller.configs.config_table import table

TRANSACTION_CONFIGS = table(
    """
    add.partitions.to.txn.retry.backoff.max.ms INT 100 read-only 0..
        The longest wait between two attempts at adding a partition to a transaction that is still being ended.
    add.partitions.to.txn.retry.backoff.ms INT 20 read-only 1..
        The first wait between two attempts at adding a partition to a transaction that is still being ended.
    transaction.abort.timed.out.transaction.cleanup.interval.ms INT 10000 read-only 1..
        How often transactions that have timed out are aborted.
    transaction.max.timeout.ms INT 900000 read-only 1..
        The longest time-out that a producer may ask for its transactions.
    transaction.partition.verification.enable BOOLEAN true cluster-wide
        Whether a partition asks the coordinator about a transaction before it takes its first records.
    transaction.remove.expired.transaction.cleanup.interval.ms INT 3600000 read-only 1..
        How often transactional ids that have expired are removed.
    transaction.state.log.load.buffer.size INT 5242880 read-only 1..
        How many bytes are read at a time when the state of transactions is loaded.
    transaction.state.log.min.isr INT 2 read-only 1..
        The min.insync.replicas of the topic of transactions.
    transaction.state.log.num.partitions INT 50 read-only 1..
        The partitions of the topic of transactions; not to be changed once it exists.
    transaction.state.log.replication.factor SHORT 3 read-only 1..
        The replicas of the topic of transactions.
    transaction.state.log.segment.bytes INT 104857600 read-only 1..
        The segment.bytes of the topic of transactions.
    transaction.two.phase.commit.enable BOOLEAN false read-only
        Whether producers may keep prepared transactions open for as long as they like.
    transactional.id.expiration.ms INT 604800000 read-only 1..
        How long a transactional id without transactions is remembered.
    """,
    without_effect="transactions are not there yet",
)

NEW_GROUP_CONFIGS = table(
    """
    group.consumer.assignment.interval.ms INT 1000 cluster-wide 0..
        The shortest time between two assignments of a consumer group.
    group.consumer.assignors LIST uniform,range read-only some
        How the broker assigns partitions in consumer groups; the first is for groups that do not say.
    group.consumer.heartbeat.interval.ms INT 5000 read-only 1..
        How often members of consumer groups are to send a heartbeat.
    group.consumer.max.assignment.interval.ms INT 15000 read-only 0..
        The largest consumer.assignment.interval.ms that a group may have.
    group.consumer.max.heartbeat.interval.ms INT 15000 read-only 1..
        The largest consumer.heartbeat.interval.ms that a group may have.
    group.consumer.max.session.timeout.ms INT 60000 read-only 1..
        The largest consumer.session.timeout.ms that a group may have.
    group.consumer.max.size INT 2147483647 read-only 1..
        The most members that one consumer group may have.
    group.consumer.migration.policy STRING bidirectional read-only DISABLED|DOWNGRADE|UPGRADE|BIDIRECTIONAL~
        Which way groups may change between the classic and the consumer protocol while they have members.
    group.consumer.min.assignment.interval.ms INT 0 read-only 0..
        The smallest consumer.assignment.interval.ms that a group may have.
    group.consumer.min.heartbeat.interval.ms INT 5000 read-only 1..
        The smallest consumer.heartbeat.interval.ms that a group may have.
    group.consumer.min.session.timeout.ms INT 45000 read-only 1..
        The smallest consumer.session.timeout.ms that a group may have.
    group.consumer.session.timeout.ms INT 45000 read-only 1..
        After how long without a heartbeat a member of a consumer group is taken for gone.
    group.share.assignment.interval.ms INT 1000 cluster-wide 0..
        The shortest time between two assignments of a share group.
    group.share.assignors LIST simple read-only some
        How the broker assigns partitions in share groups.
    group.share.delivery.count.limit INT 5 read-only 2..10
        How often a record is delivered to a share group before it is given up.
    group.share.heartbeat.interval.ms INT 5000 read-only 1..
        How often members of share groups are to send a heartbeat.
    group.share.max.assignment.interval.ms INT 15000 read-only 0..
        The largest share.assignment.interval.ms that a group may have.
    group.share.max.delivery.count.limit INT 10 read-only 5..25
        The largest share.delivery.count.limit that a group may have.
    group.share.max.heartbeat.interval.ms INT 15000 read-only 1..
        The largest share.heartbeat.interval.ms that a group may have.
    group.share.max.partition.max.record.locks INT 4000 read-only 2000..10000
        The largest share.partition.max.record.locks that a group may have.
    group.share.max.record.lock.duration.ms INT 60000 read-only 30000..3600000
        The largest share.record.lock.duration.ms that a group may have.
    group.share.max.session.timeout.ms INT 60000 read-only 1..
        The largest share.session.timeout.ms that a group may have.
    group.share.max.share.sessions INT 2000 read-only 1..
        How many sessions of share consumers are remembered.
    group.share.max.size INT 200 read-only 1..1000
        The most members that one share group may have.
    group.share.min.assignment.interval.ms INT 0 read-only 0..
        The smallest share.assignment.interval.ms that a group may have.
    group.share.min.delivery.count.limit INT 2 read-only 2..5
        The smallest share.delivery.count.limit that a group may have.
    group.share.min.heartbeat.interval.ms INT 5000 read-only 1..
        The smallest share.heartbeat.interval.ms that a group may have.
    group.share.min.partition.max.record.locks INT 100 read-only 100..2000
        The smallest share.partition.max.record.locks that a group may have.
    group.share.min.record.lock.duration.ms INT 15000 read-only 1000..30000
        The smallest share.record.lock.duration.ms that a group may have.
    group.share.min.session.timeout.ms INT 45000 read-only 1..
        The smallest share.session.timeout.ms that a group may have.
    group.share.partition.max.record.locks INT 2000 read-only 100..10000
        How many records of a partition may be out for delivery to a share group at once.
    group.share.record.lock.duration.ms INT 30000 read-only 1000..3600000
        How long a share consumer may keep a record before another gets it.
    group.share.session.timeout.ms INT 45000 read-only 1..
        After how long without a heartbeat a member of a share group is taken for gone.
    group.streams.assignment.interval.ms INT 1000 cluster-wide 0..
        The shortest time between two assignments of a streams group.
    group.streams.heartbeat.interval.ms INT 5000 read-only 1..
        How often members of streams groups are to send a heartbeat.
    group.streams.initial.rebalance.delay.ms INT 3000 read-only 0..
        How long an empty streams group waits for more members before its first assignment.
    group.streams.max.assignment.interval.ms INT 15000 read-only 0..
        The largest streams.assignment.interval.ms that a group may have.
    group.streams.max.heartbeat.interval.ms INT 15000 read-only 1..
        The largest streams.heartbeat.interval.ms that a group may have.
    group.streams.max.session.timeout.ms INT 60000 read-only 1..
        The largest streams.session.timeout.ms that a group may have.
    group.streams.max.size INT 2147483647 read-only 1..
        The most members that one streams group may have.
    group.streams.max.standby.replicas INT 2 read-only 0..
        The largest streams.num.standby.replicas that a group may have.
    group.streams.min.assignment.interval.ms INT 0 read-only 0..
        The smallest streams.assignment.interval.ms that a group may have.
    group.streams.min.heartbeat.interval.ms INT 5000 read-only 1..
        The smallest streams.heartbeat.interval.ms that a group may have.
    group.streams.min.session.timeout.ms INT 45000 read-only 1..
        The smallest streams.session.timeout.ms that a group may have.
    group.streams.num.standby.replicas INT 0 read-only 0..
        How many further members of a streams group keep a copy of each task's state.
    group.streams.session.timeout.ms INT 45000 read-only 1..
        After how long without a heartbeat a member of a streams group is taken for gone.
    share.coordinator.append.linger.ms INT -1 read-only -1..
        How long the share coordinator gathers records for one batch; as long as it has others to do if -1.
    share.coordinator.cached.buffer.max.bytes INT 1048588 cluster-wide 524288..
        The size up to which the share coordinator keeps its buffers.
    share.coordinator.load.buffer.size INT 5242880 read-only 1..
        How many bytes are read at a time when the state of share groups is loaded.
    share.coordinator.snapshot.update.records.per.snapshot INT 500 read-only 0..500
        How many changes of a share group's state are stored between two whole ones.
    share.coordinator.state.topic.compression.codec INT 0 read-only
        The codec of batches in the topic of share groups: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    share.coordinator.state.topic.min.isr SHORT 2 read-only 1..
        The min.insync.replicas of the topic of share groups.
    share.coordinator.state.topic.num.partitions INT 50 read-only 1..
        The partitions of the topic of share groups; not to be changed once it exists.
    share.coordinator.state.topic.replication.factor SHORT 3 read-only 1..
        The replicas of the topic of share groups.
    share.coordinator.state.topic.segment.bytes INT 104857600 read-only 1..
        The segment.bytes of the topic of share groups.
    share.coordinator.threads INT 1 read-only 1..
        The threads of the share coordinator.
    share.coordinator.write.timeout.ms INT 5000 read-only 1..
        How long the share coordinator waits for the replicas of what it writes.
    share.fetch.purgatory.purge.interval.requests INT 1000 read-only
        After how many finished fetches of share consumers the list of the waiting is cleared of them.
    """,
    without_effect="the consumer, share and streams group protocols are not there yet",
)
