"""Raft timeouts from the settings."""

from broker.metadata.quorum_config import metadata_log_config, quorum_timing
from controller.raft.messages import Timing
from tests.unit.controller.cluster import Settings


def test_default_settings_equal_default_raft_timing() -> None:
    assert quorum_timing(Settings()) == Timing()


def test_each_timeout_has_its_setting() -> None:
    settings = Settings(
        {
            "controller.quorum.election.timeout.ms": "1",
            "controller.quorum.fetch.timeout.ms": "2",
            "controller.quorum.election.backoff.max.ms": "3",
            "controller.quorum.request.timeout.ms": "4",
            "controller.quorum.retry.backoff.ms": "5",
            "controller.quorum.fetch.max.bytes": "6000",
            "controller.quorum.fetch.snapshot.max.bytes": "7000",
        }
    )
    assert quorum_timing(settings) == Timing(1, 2, 3, 4, 5, fetch_max_bytes=6000, fetch_snapshot_max_bytes=7000)


def test_only_snapshots_delete_from_metadata_log() -> None:
    config = metadata_log_config(
        Settings({"metadata.log.segment.bytes": str(9 << 20), "metadata.log.segment.ms": "77"})
    )
    assert (config.segment_bytes, config.segment_ms, config.cleanup_policy) == (9 << 20, 77, frozenset())
