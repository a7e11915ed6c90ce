"""The topic configuration as logs use it, with the defaults of Apache Kafka 4.3 (Kafka: `LogConfig`).

`controller/configs/` parses, validates and documents the texts; here they are values.
"""

from typing import NamedTuple

LOG_APPEND_TIME = "LogAppendTime"
CREATE_TIME = "CreateTime"
FOREVER = 2**63 - 1
FSYNC_ALWAYS = "always"
FSYNC_ON_FLUSH = "flush"

_HOUR_MS = 60 * 60 * 1000
_WEEK_MS = 7 * 24 * _HOUR_MS


class LogConfig(NamedTuple):
    """A topic's configuration: each field has its key's name, with the unit last where Kafka leaves it out."""

    barnabas_fsync: str = FSYNC_ON_FLUSH
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 24 * _HOUR_MS
    file_delete_delay_ms: int = 60 * 1000
    flush_messages: int = FOREVER
    flush_ms: int = FOREVER
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = FOREVER
    max_message_bytes: int = 1048588
    message_timestamp_after_max_ms: int = _HOUR_MS
    message_timestamp_before_max_ms: int = FOREVER
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    retention_bytes: int = -1
    retention_ms: int = _WEEK_MS
    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = _WEEK_MS
    timestamp_type: str = CREATE_TIME
