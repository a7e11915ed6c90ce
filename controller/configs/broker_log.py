"""The broker's configurations of stored logs: where they lie, and what topics without settings of their own get."""

from __future__ import annotations

from controller.configs.definition import (
    ConfigDef,
    ConfigType,
    UpdateMode,
    at_least,
    between,
    one_of,
    subset_of,
)
from controller.configs.topic import CLEANUP_POLICIES, COMPRESSION_TYPES, TIMESTAMP_TYPES

_MAX_LONG = str((1 << 63) - 1)
_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _LIST = ConfigType.LONG, ConfigType.LIST
_DYNAMIC = UpdateMode.CLUSTER_WIDE

LOG_CONFIGS = (
    ConfigDef(
        "auto.create.topics.enable",
        _BOOLEAN,
        "true",
        "Whether a topic that a client asks for by name, and that does not exist, is created.",
    ),
    ConfigDef(
        "compression.type",
        _STRING,
        "producer",
        "The codec of stored batches where the topic does not say; see the topic's compression.type.",
        one_of(*COMPRESSION_TYPES),
        _DYNAMIC,
    ),
    ConfigDef(
        "default.replication.factor",
        _INT,
        "1",
        "The replicas of a partition where the creator of a topic does not say.",
    ),
    ConfigDef(
        "delete.topic.enable",
        _BOOLEAN,
        "true",
        "Whether topics can be deleted.",
    ),
    ConfigDef(
        "log.cleanup.policy",
        _LIST,
        "delete",
        "The cleanup.policy of topics that set none: delete, compact, both, or nothing at all.",
        subset_of(*CLEANUP_POLICIES),
        _DYNAMIC,
    ),
    ConfigDef(
        "log.dir",
        _LIST,
        "/tmp/kafka-logs",  # noqa: S108  Kafka's default; `barnabas serve` always names a directory
        "The directory of the data, where log.dirs does not name several.",
    ),
    ConfigDef(
        "log.dirs",
        _LIST,
        None,
        "The directories of the data, separated by commas. Partitions are spread over them.",
    ),
    ConfigDef(
        "log.flush.interval.messages",
        _LONG,
        _MAX_LONG,
        "The flush.messages of topics that set none.",
        at_least(1),
        _DYNAMIC,
    ),
    ConfigDef(
        "log.flush.interval.ms",
        _LONG,
        None,
        "The flush.ms of topics that set none; without it log.flush.scheduler.interval.ms counts.",
        None,
        _DYNAMIC,
    ),
    ConfigDef(
        "log.flush.offset.checkpoint.interval.ms",
        _INT,
        "60000",
        "How often recovery points, log start offsets and high watermarks of all logs are written down.",
        at_least(0),
    ),
    ConfigDef(
        "log.flush.scheduler.interval.ms",
        _LONG,
        _MAX_LONG,
        "How often logs are looked at for records that flush.ms wants on disk.",
    ),
    ConfigDef(
        "log.index.interval.bytes",
        _INT,
        "4096",
        "The index.interval.bytes of topics that set none.",
        at_least(0),
        _DYNAMIC,
    ),
    ConfigDef(
        "log.index.size.max.bytes",
        _INT,
        "10485760",
        "The segment.index.bytes of topics that set none.",
        at_least(4),
        _DYNAMIC,
    ),
    ConfigDef(
        "log.message.timestamp.after.max.ms",
        _LONG,
        "3600000",
        "The message.timestamp.after.max.ms of topics that set none.",
        at_least(0),
        _DYNAMIC,
    ),
    ConfigDef(
        "log.message.timestamp.before.max.ms",
        _LONG,
        _MAX_LONG,
        "The message.timestamp.before.max.ms of topics that set none.",
        at_least(0),
        _DYNAMIC,
    ),
    ConfigDef(
        "log.message.timestamp.type",
        _STRING,
        "CreateTime",
        "The message.timestamp.type of topics that set none.",
        one_of(*TIMESTAMP_TYPES),
        _DYNAMIC,
    ),
    ConfigDef(
        "log.preallocate",
        _BOOLEAN,
        "false",
        "The preallocate of topics that set none.",
        None,
        _DYNAMIC,
    ),
    ConfigDef(
        "log.retention.bytes",
        _LONG,
        "-1",
        "The retention.bytes of topics that set none.",
        None,
        _DYNAMIC,
    ),
    ConfigDef(
        "log.retention.check.interval.ms",
        _LONG,
        "300000",
        "How often logs are searched for segments beyond their retention.",
        at_least(1),
    ),
    ConfigDef(
        "log.retention.hours",
        _INT,
        "168",
        "The retention of topics that set none, in hours, where neither the minutes nor the milliseconds are set.",
    ),
    ConfigDef(
        "log.retention.minutes",
        _INT,
        None,
        "The retention of topics that set none, in minutes, where the milliseconds are not set.",
    ),
    ConfigDef(
        "log.retention.ms",
        _LONG,
        None,
        "The retention.ms of topics that set none; -1 sets no limit.",
        None,
        _DYNAMIC,
    ),
    ConfigDef(
        "log.roll.hours",
        _INT,
        "168",
        "The age in hours at which segments roll, where log.roll.ms is not set.",
        at_least(1),
    ),
    ConfigDef(
        "log.roll.jitter.hours",
        _INT,
        "0",
        "The largest time in hours taken off the rolling age, where log.roll.jitter.ms is not set.",
        at_least(0),
    ),
    ConfigDef(
        "log.roll.jitter.ms",
        _LONG,
        None,
        "The segment.jitter.ms of topics that set none.",
        None,
        _DYNAMIC,
    ),
    ConfigDef(
        "log.roll.ms",
        _LONG,
        None,
        "The segment.ms of topics that set none.",
        None,
        _DYNAMIC,
    ),
    ConfigDef(
        "log.segment.bytes",
        _INT,
        "1073741824",
        "The segment.bytes of topics that set none.",
        at_least(1048576),
        _DYNAMIC,
    ),
    ConfigDef(
        "log.segment.delete.delay.ms",
        _LONG,
        "60000",
        "The file.delete.delay.ms of topics that set none.",
        at_least(0),
        _DYNAMIC,
    ),
    ConfigDef(
        "message.max.bytes",
        _INT,
        "1048588",
        "The max.message.bytes of topics that set none.",
        at_least(0),
        _DYNAMIC,
    ),
    ConfigDef(
        "min.insync.replicas",
        _INT,
        "1",
        "The min.insync.replicas of topics that set none.",
        at_least(1),
        _DYNAMIC,
    ),
    ConfigDef(
        "num.partitions",
        _INT,
        "1",
        "The partitions of a topic whose creator does not say.",
        at_least(1),
    ),
    ConfigDef(
        "producer.id.expiration.ms",
        _INT,
        "86400000",
        "How long the sequence numbers of a producer that stopped writing are remembered.",
        at_least(1),
    ),
    ConfigDef(
        "unclean.leader.election.enable",
        _BOOLEAN,
        "false",
        "The unclean.leader.election.enable of topics that set none.",
        None,
        _DYNAMIC,
    ),
)

# Of compaction, which this broker does not do yet; kept as the topics' defaults that Kafka's tools expect to see.
COMPACTION_CONFIGS = tuple(
    definition._replace(update_mode=_DYNAMIC, effective=False)
    for definition in (
        ConfigDef(
            "log.cleaner.delete.retention.ms",
            _LONG,
            "86400000",
            "The delete.retention.ms of topics that set none.",
            at_least(0),
        ),
        ConfigDef(
            "log.cleaner.max.compaction.lag.ms",
            _LONG,
            _MAX_LONG,
            "The max.compaction.lag.ms of topics that set none.",
            at_least(1),
        ),
        ConfigDef(
            "log.cleaner.min.cleanable.ratio",
            ConfigType.DOUBLE,
            "0.5",
            "The min.cleanable.dirty.ratio of topics that set none.",
            between(0, 1),
        ),
        ConfigDef(
            "log.cleaner.min.compaction.lag.ms",
            _LONG,
            "0",
            "The min.compaction.lag.ms of topics that set none.",
            at_least(0),
        ),
    )
)
