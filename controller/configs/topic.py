"""All topic configs, and the broker configs that they fall back to.

Names, types and defaults are those of Kafka 4.3. Configs of tiered storage and throttling are listed because tools
write and read them; `without_effect` is the reason why this broker stores and shows them but ignores them.
`controller.configs.config_table` explains the columns.
"""

from __future__ import annotations

from controller.configs.config_table import table
from controller.configs.definition import ConfigDef

PREALLOCATION = "files grow as they are written, at no extra cost"

_EFFECTIVE = table(
    """
    barnabas.fsync STRING flush read-only always|flush
        When records count as written. `always`: once they are synced to disk; a write with acks=all is acknowledged and
        becomes readable only then, and many writes share one sync. `flush`: at once; syncing is left to flush.messages
        and flush.ms, as in Apache Kafka.
    cleanup.policy LIST delete read-only compact,delete?
        The policy for old segments: `delete` removes those beyond the retention limits, `compact` keeps the last record
        of each key, and both together do both. An empty list keeps everything.
    compression.gzip.level INT -1 read-only 1..9|-1
        The level used if compression.type makes the broker write gzip.
    compression.lz4.level INT 9 read-only 1..17
        The level used if compression.type makes the broker write lz4.
    compression.type STRING producer read-only uncompressed|zstd|lz4|snappy|gzip|producer
        The codec of stored batches. `producer` stores each batch as it arrived; any other choice converts batches that
        arrive with a different codec.
    compression.zstd.level INT 3 read-only -131072..22
        The level used if compression.type makes the broker write zstd.
    delete.retention.ms LONG 86400000 read-only 0..
        Time for which a compacted topic keeps tombstones, so that a reader from the beginning still sees them.
    file.delete.delay.ms LONG 60000 read-only 0..
        Time for which the files of a deleted segment or partition stay on disk under their `.deleted` names.
    flush.messages LONG 9223372036854775807 read-only 1..
        The number of records after which the log is synced to disk. By default the operating system decides, and
        replication protects against loss. The broker is blocked during such a sync: to sync each record,
        `barnabas.fsync=always` lets many share one sync and does not block.
    flush.ms LONG 9223372036854775807 read-only 0..
        The time after which appended records are synced to disk.
    follower.replication.throttled.replicas LIST '' read-only throttled
        Replicas whose fetching follower.replication.throttled.rate limits, as partition:broker pairs, or * for all.
    index.interval.bytes INT 4096 read-only 0..
        Bytes of log between two entries of the offset index. Less makes lookups faster and indexes larger.
    leader.replication.throttled.replicas LIST '' read-only throttled
        Replicas from which followers' fetches leader.replication.throttled.rate limits, as partition:broker pairs, or *
        for all.
    max.compaction.lag.ms LONG 9223372036854775807 read-only 1..
        Maximum time that a record of a compacted topic stays uncleaned.
    max.message.bytes INT 1048588 read-only 0..
        Maximum size of a record batch in bytes, after compression.
    message.timestamp.after.max.ms LONG 3600000 read-only 0..
        Maximum time that a record's timestamp can be ahead of the broker's clock. Ignored with LogAppendTime.
    message.timestamp.before.max.ms LONG 9223372036854775807 read-only 0..
        Maximum time that a record's timestamp can be behind the broker's clock. Ignored with LogAppendTime.
    message.timestamp.type STRING CreateTime read-only CreateTime|LogAppendTime
        Whether records keep the timestamp of their producer (CreateTime) or get the broker's (LogAppendTime).
    min.cleanable.dirty.ratio DOUBLE 0.5 read-only 0..1
        Ratio of dirty to total bytes above which a compacted log is cleaned.
    min.compaction.lag.ms LONG 0 read-only 0..
        Minimum time that a record of a compacted topic stays uncleaned.
    min.insync.replicas INT 1 read-only 1..
        Minimum size of the ISR, leader included, for a write with acks=all; at most the number of replicas counts.
    retention.bytes LONG -1 read-only
        Size of a partition above which the `delete` policy removes its oldest segments; -1 sets no limit.
    retention.ms LONG 604800000 read-only -1..
        Age, by their largest timestamp, above which the `delete` policy removes segments; -1 sets no limit.
    segment.bytes INT 1073741824 read-only 1048576..
        The size at which segments roll. Retention and compaction work on whole segments.
    segment.index.bytes INT 10485760 read-only 4..
        Maximum size of a segment's index; a full index rolls the segment.
    segment.jitter.ms LONG 0 read-only 0..
        Maximum random time subtracted from segment.ms, so that segments do not all roll at once.
    segment.ms LONG 604800000 read-only 1..
        The age at which a segment rolls even if it is not full.
    unclean.leader.election.enable BOOLEAN false read-only
        Whether a replica outside the ISR can become leader if no other can, at the risk of losing records.
    """
)

_WITHOUT_EFFECT = (
    *table(
        """
        local.retention.bytes LONG -2 read-only -2..
            With tiered storage, the bytes of a partition that stay on local disk; -2 stands for retention.bytes.
        local.retention.ms LONG -2 read-only -2..
            With tiered storage, the time that a segment stays on local disk; -2 stands for retention.ms.
        remote.log.copy.disable BOOLEAN false read-only
            With tiered storage, whether no more segments of the topic are uploaded.
        remote.log.delete.on.disable BOOLEAN false read-only
            Whether turning tiered storage off for the topic deletes what was uploaded.
        remote.storage.enable BOOLEAN false read-only
            Whether the topic's closed segments are kept in tiered storage.
        """,
        without_effect="tiered storage is not supported yet",
    ),
    *table(
        """
        preallocate BOOLEAN false read-only
            Whether a new segment's file gets its full size at once.
        """,
        without_effect=PREALLOCATION,
    ),
)

_INTERNAL = table(
    """
    internal.segment.bytes INT null read-only 1..
        Replaces segment.bytes, without its lower limit, in tests.
    """,
    internal=True,
)

TOPIC_CONFIGS: dict[str, ConfigDef] = {
    one.name: one for one in (*sorted(_EFFECTIVE + _WITHOUT_EFFECT, key=lambda one: one.name), *_INTERNAL)
}


# Broker configs that a topic config falls back to; the first that is set anywhere applies.
BROKER_SYNONYMS: dict[str, tuple[str, ...]] = {
    "barnabas.fsync": ("barnabas.fsync",),
    "cleanup.policy": ("log.cleanup.policy",),
    "compression.gzip.level": ("compression.gzip.level",),
    "compression.lz4.level": ("compression.lz4.level",),
    "compression.type": ("compression.type",),
    "compression.zstd.level": ("compression.zstd.level",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
    "flush.messages": ("log.flush.interval.messages",),
    "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "index.interval.bytes": ("log.index.interval.bytes",),
    "local.retention.bytes": ("log.local.retention.bytes",),
    "local.retention.ms": ("log.local.retention.ms",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "max.message.bytes": ("message.max.bytes",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "min.insync.replicas": ("min.insync.replicas",),
    "preallocate": ("log.preallocate",),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.bytes": ("log.segment.bytes",),
    "segment.index.bytes": ("log.index.size.max.bytes",),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
}

BROKER_SYNONYM_NAMES = frozenset(name for names in BROKER_SYNONYMS.values() for name in names)

# Those of them that are times, unlimited if negative, with the factor to milliseconds.
SYNONYM_UNITS = {
    "log.retention.ms": 1,
    "log.retention.hours": 3_600_000,
    "log.retention.minutes": 60_000,
    "log.roll.hours": 3_600_000,
    "log.roll.jitter.hours": 3_600_000,
}
