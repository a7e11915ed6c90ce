"""Broker configs of stored logs and their cleaning: directories, flushing, and the defaults of topic configs.

Kafka: `ServerLogConfigs`, `CleanerConfig`.
`controller.configs.config_table` explains the columns.
"""

from controller.configs.config_table import table
from controller.configs.topic import PREALLOCATION

SERVER_LOG_CONFIGS = (
    *table(
        """
        auto.create.topics.enable BOOLEAN true read-only
            Whether a missing topic is created when a client requests its metadata by name.
        barnabas.fsync STRING flush cluster-wide always|flush
            The barnabas.fsync of topics that set none; internal topics follow it too.
        cordoned.log.dirs LIST '' per-broker
            Directories of log.dirs in which no new partitions are placed; * for all of them.
        compression.type STRING producer cluster-wide uncompressed|zstd|lz4|snappy|gzip|producer
            The compression.type of topics that set none.
        compression.gzip.level INT -1 cluster-wide 1..9|-1
            The compression.gzip.level of topics that set none.
        compression.lz4.level INT 9 cluster-wide 1..17
            The compression.lz4.level of topics that set none.
        compression.zstd.level INT 3 cluster-wide -131072..22
            The compression.zstd.level of topics that set none.
        default.replication.factor INT 1 read-only
            Replication factor of new topics whose creation request sets none.
        delete.topic.enable BOOLEAN true read-only
            Whether topics can be deleted.
        log.cleaner.backoff.ms LONG 15000 cluster-wide 0..
            Wait before the cleaner checks the logs again, after it found none to clean.
        log.cleaner.dedupe.buffer.size LONG 134217728 cluster-wide
            Memory for the cleaner's offset map, in bytes.
        log.cleaner.delete.retention.ms LONG 86400000 cluster-wide 0..
            The delete.retention.ms of topics that set none.
        log.cleaner.enable BOOLEAN true read-only
            Whether compacted topics are cleaned.
        log.cleaner.io.buffer.load.factor DOUBLE 0.9 cluster-wide
            Maximum load factor of the cleaner's offset map.
        log.cleaner.io.buffer.size INT 524288 cluster-wide 0..
            Memory for the cleaner's reads and writes, in bytes.
        log.cleaner.io.max.bytes.per.second DOUBLE 1.7976931348623157E308 cluster-wide
            Maximum rate of the cleaner's reads and writes, in bytes per second.
        log.cleaner.max.compaction.lag.ms LONG 9223372036854775807 cluster-wide 1..
            The max.compaction.lag.ms of topics that set none.
        log.cleaner.min.cleanable.ratio DOUBLE 0.5 cluster-wide 0..1
            The min.cleanable.dirty.ratio of topics that set none.
        log.cleaner.min.compaction.lag.ms LONG 0 cluster-wide 0..
            The min.compaction.lag.ms of topics that set none.
        log.cleanup.policy LIST delete cluster-wide compact,delete?
            The cleanup.policy of topics that set none: delete, compact, both, or nothing at all.
        log.dir LIST /tmp/kafka-logs read-only some
            The data directory, if log.dirs is not set.
        log.dirs LIST null read-only some
            The data directories, separated by commas. Partitions are spread over them.
        log.flush.interval.messages LONG 9223372036854775807 cluster-wide 1..
            The flush.messages of topics that set none.
        log.flush.interval.ms LONG null cluster-wide
            The flush.ms of topics that set none; log.flush.scheduler.interval.ms if not set.
        log.flush.offset.checkpoint.interval.ms INT 60000 read-only 0..
            Interval at which the recovery point of each log, up to which it is flushed, is written to its checkpoint.
        log.flush.scheduler.interval.ms LONG 9223372036854775807 read-only
            Interval of the check for logs whose flush.ms has passed; capped at one second.
        log.flush.start.offset.checkpoint.interval.ms INT 60000 read-only 0..
            Interval at which the start offset of each log is written to its checkpoint.
        log.index.interval.bytes INT 4096 cluster-wide 0..
            The index.interval.bytes of topics that set none.
        log.index.size.max.bytes INT 10485760 cluster-wide 4..
            The segment.index.bytes of topics that set none.
        log.message.timestamp.after.max.ms LONG 3600000 cluster-wide 0..
            The message.timestamp.after.max.ms of topics that set none.
        log.message.timestamp.before.max.ms LONG 9223372036854775807 cluster-wide 0..
            The message.timestamp.before.max.ms of topics that set none.
        log.message.timestamp.type STRING CreateTime cluster-wide CreateTime|LogAppendTime
            The message.timestamp.type of topics that set none.
        log.retention.bytes LONG -1 cluster-wide
            The retention.bytes of topics that set none.
        log.retention.check.interval.ms LONG 300000 read-only 1..
            Interval of the check for segments beyond their retention.
        log.retention.hours INT 168 read-only
            The retention of topics that set none, in hours, if neither minutes nor milliseconds are set.
        log.retention.minutes INT null read-only
            The retention of topics that set none, in minutes, if milliseconds are not set.
        log.retention.ms LONG null cluster-wide
            The retention.ms of topics that set none; -1 sets no limit.
        log.roll.hours INT 168 read-only 1..
            The age in hours at which segments roll, if log.roll.ms is not set.
        log.roll.jitter.hours INT 0 read-only 0..
            The maximum jitter in hours subtracted from the rolling age, if log.roll.jitter.ms is not set.
        log.roll.jitter.ms LONG null cluster-wide
            The segment.jitter.ms of topics that set none.
        log.roll.ms LONG null cluster-wide
            The segment.ms of topics that set none.
        log.segment.bytes INT 1073741824 cluster-wide 1048576..
            The segment.bytes of topics that set none.
        log.segment.delete.delay.ms LONG 60000 cluster-wide 0..
            The file.delete.delay.ms of topics that set none.
        message.max.bytes INT 1048588 cluster-wide 0..
            The max.message.bytes of topics that set none.
        min.insync.replicas INT 1 cluster-wide 1..
            The min.insync.replicas of topics that set none.
        num.partitions INT 1 read-only 1..
            Number of partitions of new topics whose creation request sets none.
        producer.id.expiration.ms INT 86400000 cluster-wide 1..
            Time after a producer's last write for which its sequence numbers are kept.
        replica.high.watermark.checkpoint.interval.ms LONG 5000 read-only
            Interval at which the high watermark of each replica is written to its checkpoint.
        unclean.leader.election.enable BOOLEAN false cluster-wide
            The unclean.leader.election.enable of topics that set none.
        """
    ),
    *table(
        """
        log.preallocate BOOLEAN false cluster-wide
            The preallocate of topics that set none.
        """,
        without_effect=PREALLOCATION,
    ),
    *table(
        """
        log.initial.task.delay.ms LONG 30000 read-only 0..
            Delay of the first retention and checkpoint runs after the start, unless their interval is shorter.
        producer.id.expiration.check.interval.ms INT 600000 read-only 1..
            Interval of the check for expired producer ids.
        replica.alter.log.dirs.io.max.bytes.per.second LONG null cluster-wide 0..
            Maximum rate of moves between directories, in bytes per second.
        """,
        internal=True,
    ),
)
