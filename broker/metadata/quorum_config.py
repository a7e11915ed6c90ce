"""Quorum configuration: the Raft timeouts and the metadata log's configuration, from the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.raft.messages import Timing
from storage.log.config import LogConfig

if TYPE_CHECKING:
    from controller.configs.effective import StaticSettings


def metadata_log_config(settings: StaticSettings) -> LogConfig:
    """Return the metadata log's configuration. It has no retention: snapshots decide what is deleted."""
    return LogConfig(
        cleanup_policy=frozenset(),
        segment_bytes=settings["metadata.log.segment.bytes"],
        segment_ms=settings["metadata.log.segment.ms"],
        file_delete_delay_ms=0,
    )


def quorum_timing(settings: StaticSettings) -> Timing:
    """Return the Raft timeouts and fetch sizes."""
    return Timing(
        election_timeout_ms=settings["controller.quorum.election.timeout.ms"],
        fetch_timeout_ms=settings["controller.quorum.fetch.timeout.ms"],
        election_backoff_max_ms=settings["controller.quorum.election.backoff.max.ms"],
        request_timeout_ms=settings["controller.quorum.request.timeout.ms"],
        retry_backoff_ms=settings["controller.quorum.retry.backoff.ms"],
        fetch_max_bytes=settings["controller.quorum.fetch.max.bytes"],
        fetch_snapshot_max_bytes=settings["controller.quorum.fetch.snapshot.max.bytes"],
    )
