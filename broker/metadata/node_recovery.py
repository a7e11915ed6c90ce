"""Node recovery: opens the metadata log at start-up, validates all of it, and makes the `RaftNode` from it.

The settings define the voters (`controller.quorum.voters`). Without that setting, the node started as the only voter of
its own quorum, and the log defines the voters, which can change. Settings that differ from the stored voters are
refused: majorities of two different voter sets need not overlap, and each could elect a leader of the same cluster.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from broker.metadata.metadata_log import MetadataLog
from broker.metadata.metadata_recovery import RecoveredMetadata, check_features, check_voters, recover_metadata
from controller.raft.messages import Timing
from controller.raft.raft_node import RaftNode
from controller.raft.voter_history import VoterHistory
from controller.raft.voters import Voter, VoterSet
from controller.topic_names import CLUSTER_METADATA
from protocol.plural import count_of
from protocol.schema import Message
from storage.log.config import LogConfig

if TYPE_CHECKING:
    from random import Random

    from broker.settings import Settings
    from controller.configs.effective import StaticSettings
    from controller.image import MetadataImage
    from storage.disk import Disk
    from storage.log_directory import LogDirectory

_log = logging.getLogger("broker.controller")


class RecoveredNode(NamedTuple):
    """The metadata log, its contents, and the Raft node made from them."""

    log: MetadataLog
    metadata: RecoveredMetadata
    node: RaftNode


def recover_node(
    disk: Disk,
    directory: LogDirectory,
    settings: Settings,
    empty: MetadataImage,
    *,
    random: Random,
    wall_clock_ms: int,
    now_ms: int,
    first_records: tuple[Message, ...] = (),
) -> RecoveredNode:
    """Open or create the metadata log in `directory`, and replay it onto `empty`, the cluster's empty image.

    `first_records` are those of a new cluster after its feature levels; an existing log ignores them. `now_ms` is of
    the monotonic clock that the node gets with every event. InvariantError if the log cannot be decoded, uses a feature
    that this version does not support, or belongs to a quorum with other voters; OSError and KafkaError if it cannot be
    read.
    """
    static = [Voter(voter.node_id) for voter in settings.voters]
    first = VoterSet(static or [Voter(settings.node_id, directory.directory_id)])
    log = MetadataLog.open(
        disk,
        directory,
        None if static else first,
        config=metadata_log_config(settings),
        now_ms=wall_clock_ms,
        first_records=first_records,
    )
    if log.truncated_bytes:
        cut = "Truncated %s of incomplete batches from the metadata log in %s; it now ends at offset %d"
        _log.warning(cut, count_of(log.truncated_bytes, "byte"), directory.path, log.end_offset)
    voters = VoterHistory(first)
    recovered = recover_metadata(log, empty, voter_history=voters)
    place = f"{directory.path}/{CLUSTER_METADATA}-0"
    check_features(recovered.image, voters.kraft_version, place)
    if voters.kraft_version == 0:  # the log has no voters: its snapshots neither
        check_voters(first.by_id, log.read_quorum_voters(), place)
    if static:
        check_voters(first.by_id, voters.voters.by_id, place)
    log.bootstrap_records()  # fail now if damaged: they are needed when the cluster is bootstrapped
    node = RaftNode(
        settings.node_id,
        voters,
        log.read_quorum_state(),
        log.raft_log(),
        cluster_id=empty.cluster_id,
        directory_id=directory.directory_id,
        timing=quorum_timing(settings),
        random=random,
        now_ms=now_ms,
    )
    return RecoveredNode(log, recovered, node)


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
