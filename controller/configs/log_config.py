"""A topic's configs as storage's LogConfig."""

from collections.abc import Mapping
from typing import Any

from controller.configs.effective import StaticSettings, effective_topic_config
from controller.image import MetadataImage, ResourceType
from storage.log.config import LogConfig


def log_config(values: Mapping[str, Any]) -> LogConfig:
    """Return the LogConfig for the configs of a topic (`effective_topic_config`)."""
    # The cleaner skips the active segment, so it must roll before max.compaction.lag.ms has passed.
    compacted = "compact" in values["cleanup.policy"]
    return LogConfig(
        barnabas_fsync=values["barnabas.fsync"],
        cleanup_policy=frozenset(values["cleanup.policy"]),
        compression_gzip_level=values["compression.gzip.level"],
        compression_lz4_level=values["compression.lz4.level"],
        compression_type=values["compression.type"],
        compression_zstd_level=values["compression.zstd.level"],
        delete_retention_ms=values["delete.retention.ms"],
        file_delete_delay_ms=values["file.delete.delay.ms"],
        flush_messages=values["flush.messages"],
        flush_ms=values["flush.ms"],
        index_interval_bytes=values["index.interval.bytes"],
        max_compaction_lag_ms=values["max.compaction.lag.ms"],
        max_message_bytes=values["max.message.bytes"],
        message_timestamp_after_max_ms=values["message.timestamp.after.max.ms"],
        message_timestamp_before_max_ms=values["message.timestamp.before.max.ms"],
        min_cleanable_dirty_ratio=values["min.cleanable.dirty.ratio"],
        min_compaction_lag_ms=values["min.compaction.lag.ms"],
        min_insync_replicas=values["min.insync.replicas"],
        retention_bytes=values["retention.bytes"],
        retention_ms=values["retention.ms"],
        segment_bytes=values["internal.segment.bytes"] or values["segment.bytes"],
        segment_index_bytes=values["segment.index.bytes"],
        segment_jitter_ms=values["segment.jitter.ms"],
        segment_ms=min(values["segment.ms"], values["max.compaction.lag.ms"]) if compacted else values["segment.ms"],
        timestamp_type=values["message.timestamp.type"],
    )


def topic_log_config(image: MetadataImage, settings: StaticSettings, topic: str) -> LogConfig:
    """Return the configuration of a topic's logs; all topics without configs of their own share one."""
    if image.configs(ResourceType.TOPIC, topic):
        return log_config(effective_topic_config(image, settings, topic))
    key = (topic_log_config, settings.node_id)
    config: LogConfig | None = image.memo.get(key)
    if config is None:
        config = image.memo[key] = log_config(effective_topic_config(image, settings, topic))
    return config
