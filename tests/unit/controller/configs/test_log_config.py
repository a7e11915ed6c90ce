"""LogConfig built from a topic's configurations."""

from __future__ import annotations

import pytest

from controller.configs.effective import effective_topic_config
from controller.configs.log_config import log_config, topic_log_config
from controller.image import MetadataImage, ResourceType
from storage.log.config import LogConfig
from tests.unit.controller.cluster import Settings

EMPTY = MetadataImage(cluster_id="c")


def test_the_defaults_are_those_of_storage() -> None:
    assert topic_log_config(EMPTY, Settings(), "t") == LogConfig()


def test_every_field_follows_its_configuration() -> None:
    given = {
        "cleanup.policy": "compact,delete",
        "compression.gzip.level": "7",
        "compression.lz4.level": "8",
        "compression.type": "zstd",
        "compression.zstd.level": "-9",
        "delete.retention.ms": "1",
        "file.delete.delay.ms": "2",
        "flush.messages": "3",
        "flush.ms": "4",
        "index.interval.bytes": "5",
        "max.compaction.lag.ms": "6",
        "max.message.bytes": "7",
        "message.timestamp.after.max.ms": "8",
        "message.timestamp.before.max.ms": "9",
        "message.timestamp.type": "LogAppendTime",
        "min.cleanable.dirty.ratio": "0.25",
        "min.compaction.lag.ms": "10",
        "min.insync.replicas": "11",
        "retention.bytes": "12",
        "retention.ms": "13",
        "segment.bytes": "1048577",
        "segment.index.bytes": "14",
        "segment.jitter.ms": "15",
        "segment.ms": "16",
    }
    image = MetadataImage(cluster_id="c", configs={(ResourceType.TOPIC, "t"): given})
    assert topic_log_config(image, Settings(), "t") == LogConfig(
        cleanup_policy=frozenset({"compact", "delete"}),
        compression_gzip_level=7,
        compression_lz4_level=8,
        compression_type="zstd",
        compression_zstd_level=-9,
        delete_retention_ms=1,
        file_delete_delay_ms=2,
        flush_messages=3,
        flush_ms=4,
        index_interval_bytes=5,
        max_compaction_lag_ms=6,
        max_message_bytes=7,
        message_timestamp_after_max_ms=8,
        message_timestamp_before_max_ms=9,
        timestamp_type="LogAppendTime",
        min_cleanable_dirty_ratio=0.25,
        min_compaction_lag_ms=10,
        min_insync_replicas=11,
        retention_bytes=12,
        retention_ms=13,
        segment_bytes=1048577,
        segment_index_bytes=14,
        segment_jitter_ms=15,
        segment_ms=6,  # max.compaction.lag.ms
    )


def test_tests_can_have_segments_below_the_limit() -> None:
    values = effective_topic_config(EMPTY, Settings(), "t", {"internal.segment.bytes": "100"})
    assert log_config(values).segment_bytes == 100


def test_topics_without_overrides_share_one_config_until_an_alteration() -> None:
    image = MetadataImage(cluster_id="c", configs={(ResourceType.TOPIC, "own"): {"retention.ms": "5"}})
    settings = Settings()
    assert topic_log_config(image, settings, "a") is topic_log_config(image, settings, "b")
    assert topic_log_config(image, settings, "own").retention_ms == 5
    altered = MetadataImage(cluster_id="c", configs={(ResourceType.BROKER, ""): {"log.retention.ms": "7"}})
    assert topic_log_config(altered, settings, "a").retention_ms == 7


@pytest.mark.parametrize(("policy", "segment_ms"), [("compact", 6), ("compact,delete", 6), ("delete", 16)])
def test_a_segment_rolls_before_its_records_have_waited_too_long_for_compaction(policy: str, segment_ms: int) -> None:
    image = MetadataImage(
        cluster_id="c",
        configs={
            (ResourceType.TOPIC, "t"): {"cleanup.policy": policy, "segment.ms": "16", "max.compaction.lag.ms": "6"}
        },
    )
    assert topic_log_config(image, Settings(), "t").segment_ms == segment_ms
