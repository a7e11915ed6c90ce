"""All topic configs, and the broker configs that they fall back to.

Names, types and defaults are those of Kafka 4.3. Configs of tiered storage and throttling are listed because tools
write and read them; `without_effect` is the reason why this broker stores and shows them but ignores them.
"""

from __future__ import annotations

from controller.configs.definition import (
    ConfigDef,
    ConfigType,
    at_least,
    between,
    between_or,
    one_of,
    subset_of,
    throttled_replicas,
)

_MAX_LONG = str((1 << 63) - 1)
_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST

_THROTTLES = "replication is not throttled yet"
_TIERED = "tiered storage is not supported yet"
PREALLOCATION = "files grow as they are written, at no extra cost"

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
CLEANUP_POLICIES = ("compact", "delete")
FSYNC = ("always", "flush")

_DEFINITIONS = (
    ConfigDef(
        "barnabas.fsync",
        _STRING,
        "flush",
        "When records count as written. `always`: once they are synced to disk; a write with acks=all is acknowledged"
        " and becomes readable only then, and many writes share one sync. `flush`: at once; syncing is left to"
        " flush.messages and flush.ms, as in Apache Kafka.",
        one_of(*FSYNC),
    ),
    ConfigDef(
        "cleanup.policy",
        _LIST,
        "delete",
        "The policy for old segments: `delete` removes those beyond the retention limits, `compact` keeps the last"
        " record of each key, and both together do both. An empty list keeps everything.",
        subset_of(*CLEANUP_POLICIES),
    ),
    ConfigDef(
        "compression.gzip.level",
        _INT,
        "-1",
        "The level used if compression.type makes the broker write gzip.",
        between_or(1, 9, -1),
    ),
    ConfigDef(
        "compression.lz4.level",
        _INT,
        "9",
        "The level used if compression.type makes the broker write lz4.",
        between(1, 17),
    ),
    ConfigDef(
        "compression.type",
        _STRING,
        "producer",
        "The codec of stored batches. `producer` stores each batch as it arrived; any other choice converts batches"
        " that arrive with a different codec.",
        one_of(*COMPRESSION_TYPES),
    ),
    ConfigDef(
        "compression.zstd.level",
        _INT,
        "3",
        "The level used if compression.type makes the broker write zstd.",
        between(-131072, 22),
    ),
    ConfigDef(
        "delete.retention.ms",
        _LONG,
        "86400000",
        "Time for which a compacted topic keeps tombstones, so that a reader from the beginning still sees them.",
        at_least(0),
    ),
    ConfigDef(
        "file.delete.delay.ms",
        _LONG,
        "60000",
        "Time for which the files of a deleted segment or partition stay on disk under their `.deleted` names.",
        at_least(0),
    ),
    ConfigDef(
        "flush.messages",
        _LONG,
        _MAX_LONG,
        "The number of records after which the log is synced to disk. By default the operating system decides, and"
        " replication protects against loss. The broker is blocked during such a sync: to sync each record,"
        " `barnabas.fsync=always` lets many share one sync and does not block.",
        at_least(1),
    ),
    ConfigDef(
        "flush.ms",
        _LONG,
        _MAX_LONG,
        "The time after which appended records are synced to disk.",
        at_least(0),
    ),
    ConfigDef(
        "follower.replication.throttled.replicas",
        _LIST,
        "",
        "Replicas whose fetching is throttled on the follower's side, as partition:broker pairs, or * for all.",
        throttled_replicas,
        without_effect=_THROTTLES,
    ),
    ConfigDef(
        "index.interval.bytes",
        _INT,
        "4096",
        "Bytes of log between two entries of the offset index. Less makes lookups faster and indexes larger.",
        at_least(0),
    ),
    ConfigDef(
        "leader.replication.throttled.replicas",
        _LIST,
        "",
        "Replicas whose fetching is throttled on the leader's side, as partition:broker pairs, or * for all.",
        throttled_replicas,
        without_effect=_THROTTLES,
    ),
    ConfigDef(
        "local.retention.bytes",
        _LONG,
        "-2",
        "With tiered storage, the bytes of a partition that stay on local disk; -2 stands for retention.bytes.",
        at_least(-2),
        without_effect=_TIERED,
    ),
    ConfigDef(
        "local.retention.ms",
        _LONG,
        "-2",
        "With tiered storage, the time that a segment stays on local disk; -2 stands for retention.ms.",
        at_least(-2),
        without_effect=_TIERED,
    ),
    ConfigDef(
        "max.compaction.lag.ms",
        _LONG,
        _MAX_LONG,
        "Maximum time that a record of a compacted topic stays uncleaned.",
        at_least(1),
    ),
    ConfigDef(
        "max.message.bytes",
        _INT,
        "1048588",
        "Maximum size of a record batch in bytes, after compression.",
        at_least(0),
    ),
    ConfigDef(
        "message.timestamp.after.max.ms",
        _LONG,
        "3600000",
        "Maximum time that a record's timestamp can be ahead of the broker's clock. Ignored with LogAppendTime.",
        at_least(0),
    ),
    ConfigDef(
        "message.timestamp.before.max.ms",
        _LONG,
        _MAX_LONG,
        "Maximum time that a record's timestamp can be behind the broker's clock. Ignored with LogAppendTime.",
        at_least(0),
    ),
    ConfigDef(
        "message.timestamp.type",
        _STRING,
        "CreateTime",
        "Whether records keep the timestamp of their producer (CreateTime) or get the broker's (LogAppendTime).",
        one_of(*TIMESTAMP_TYPES),
    ),
    ConfigDef(
        "min.cleanable.dirty.ratio",
        _DOUBLE,
        "0.5",
        "Ratio of dirty to total bytes above which a compacted log is cleaned.",
        between(0, 1),
    ),
    ConfigDef(
        "min.compaction.lag.ms",
        _LONG,
        "0",
        "Minimum time that a record of a compacted topic stays uncleaned.",
        at_least(0),
    ),
    ConfigDef(
        "min.insync.replicas",
        _INT,
        "1",
        "Minimum size of the ISR, including the leader, for a write with acks=all to be accepted.",
        at_least(1),
    ),
    ConfigDef(
        "preallocate",
        _BOOLEAN,
        "false",
        "Whether a new segment's file gets its full size at once.",
        without_effect=PREALLOCATION,
    ),
    ConfigDef(
        "remote.log.copy.disable",
        _BOOLEAN,
        "false",
        "With tiered storage, whether no more segments of the topic are uploaded.",
        without_effect=_TIERED,
    ),
    ConfigDef(
        "remote.log.delete.on.disable",
        _BOOLEAN,
        "false",
        "Whether turning tiered storage off for the topic deletes what was uploaded.",
        without_effect=_TIERED,
    ),
    ConfigDef(
        "remote.storage.enable",
        _BOOLEAN,
        "false",
        "Whether the topic's closed segments are kept in tiered storage.",
        without_effect=_TIERED,
    ),
    ConfigDef(
        "retention.bytes",
        _LONG,
        "-1",
        "Size of a partition above which the `delete` policy removes its oldest segments; -1 sets no limit.",
    ),
    ConfigDef(
        "retention.ms",
        _LONG,
        "604800000",
        "Age, by their largest timestamp, above which the `delete` policy removes segments; -1 sets no limit.",
        at_least(-1),
    ),
    ConfigDef(
        "segment.bytes",
        _INT,
        "1073741824",
        "The size at which segments roll. Retention and compaction work on whole segments.",
        at_least(1048576),
    ),
    ConfigDef(
        "segment.index.bytes",
        _INT,
        "10485760",
        "Maximum size of a segment's index; a full index rolls the segment.",
        at_least(4),
    ),
    ConfigDef(
        "segment.jitter.ms",
        _LONG,
        "0",
        "Maximum random time subtracted from segment.ms, so that segments do not all roll at once.",
        at_least(0),
    ),
    ConfigDef(
        "segment.ms",
        _LONG,
        "604800000",
        "The age at which a segment rolls even if it is not full.",
        at_least(1),
    ),
    ConfigDef(
        "unclean.leader.election.enable",
        _BOOLEAN,
        "false",
        "Whether a replica outside the ISR can become leader if no other can, at the risk of losing records.",
    ),
    ConfigDef(
        "internal.segment.bytes",
        _INT,
        None,
        "Replaces segment.bytes, without its lower limit, in tests.",
        at_least(1),
        internal=True,
    ),
)

TOPIC_CONFIGS: dict[str, ConfigDef] = {definition.name: definition for definition in _DEFINITIONS}


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

BEHIND_TOPICS = frozenset(name for names in BROKER_SYNONYMS.values() for name in names)

# Those of them that are times, unlimited if negative, with the factor to milliseconds.
SYNONYM_UNITS = {
    "log.retention.ms": 1,
    "log.retention.hours": 3_600_000,
    "log.retention.minutes": 60_000,
    "log.roll.hours": 3_600_000,
    "log.roll.jitter.hours": 3_600_000,
}
