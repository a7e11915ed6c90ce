"""Raft node recovery from a metadata log on a real disk and the settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.metadata.metadata_log import Retention
from broker.metadata.node_recovery import RecoveredNode, metadata_log_config, quorum_timing, recover_node
from broker.settings import Settings, check_settings
from controller.image import MetadataImage
from controller.raft.log import Entry, SnapshotId
from controller.raft.messages import ElectionState, Timing
from controller.raft.voters import Voter, VoterSet
from controller.snapshot import encode_snapshot
from protocol.errors import InvariantError
from protocol.records.control import KRaftVersionRecord
from protocol.records.metadata import FeatureLevelRecord, NoOpRecord
from protocol.schema import Message
from storage.checkpoint import MetaProperties
from storage.disk import OsDisk
from storage.log_directory import LogDirectory
from tests.typed import present
from tests.unit.broker.whole_cluster import CONTROLLER, node_settings
from tests.unit.controller.cluster import Settings as FakeSettings

OWN = b"d" * 16
EMPTY = MetadataImage(cluster_id="0123456789abcdefghijkl")
ALONE = check_settings({})
OF_THREE = node_settings(1, dict.fromkeys((1, 2, 3), CONTROLLER))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    opened = []

    def start(settings: Settings = ALONE, *records: Message, epoch: int = 1) -> RecoveredNode:
        """Start on the directory, after appending `records` to its log, if any."""
        directory = LogDirectory(OsDisk(), str(tmp_path))
        directory.open()
        if directory.meta is None:
            directory.format(MetaProperties(EMPTY.cluster_id, 1, OWN))
        found = recover_node(OsDisk(), directory, settings, EMPTY, random=Random(1), wall_clock_ms=1, now_ms=0)
        opened.append((directory, found.log))
        if not records:
            return found
        flush = found.log.append([Entry(found.log.end_offset, epoch, records)], 1)
        present(flush).sync()
        present(flush).finish()
        stop()
        return start(settings)

    def stop() -> None:
        directory, log = opened.pop()
        log.close(1)
        directory.close(clean=True)

    start.stop = stop  # type: ignore[attr-defined]  # functions may have attributes
    yield start
    while opened:
        stop()


def test_new_node_without_configured_voters_is_sole_voter_with_directory_id(
    start: Any,
) -> None:
    node = start().node
    assert node.voters.by_id == {1: Voter(1, OWN)}
    assert (node.epoch, node.end_offset, node.kraft_version) == (0, 0, 1)


def test_the_voters_are_those_of_the_settings(start: Any) -> None:
    node = start(OF_THREE).node
    assert set(node.voters.by_id) == {1, 2, 3}
    assert node.kraft_version == 0


def test_voters_come_from_log_without_configured_ones(start: Any) -> None:
    voters = VoterSet([Voter(1, OWN), Voter(2, b"e" * 16)])
    found = start(ALONE, KRaftVersionRecord(version=0, kraft_version=1), voters.to_record())
    assert found.node.voters.by_id == voters.by_id


def test_voters_in_the_log_count_after_a_restart_also_if_they_are_configured(start: Any) -> None:
    first = VoterSet([Voter(number, bytes([number]) * 16) for number in (1, 2, 3)])
    second = VoterSet([Voter(number, bytes([number]) * 15 + b"x") for number in (1, 2, 3)])
    records = (KRaftVersionRecord(version=0, kraft_version=1), first.to_record(), second.to_record())
    found = start(OF_THREE, *records)
    assert (found.node.voters.by_id, found.node.kraft_version) == (second.by_id, 1)
    found.log.truncate(0)
    start.stop()
    assert set(start(OF_THREE).node.voters.by_id.values()) == {Voter(1), Voter(2), Voter(3)}


def test_first_voters_of_a_formatted_directory_count_until_the_log_has_them(start: Any) -> None:
    found = start()
    assert (found.log.oldest_snapshot, found.node.snapshot_voters(0).by_id) == ((0, 0), {1: Voter(1, OWN)})


def test_node_recovers_vote_and_log(start: Any) -> None:
    found = start(OF_THREE, NoOpRecord(), NoOpRecord(), epoch=4)
    found.log.write_quorum_state(ElectionState(5, voted_id=2), found.node.voters, 0)
    start.stop()
    again = start(OF_THREE)
    assert again.node.election == ElectionState(5, voted_id=2)
    assert again.node.end_offset == 2
    assert again.metadata.image.epoch == 4


def test_voters_that_differ_from_stored_state_are_refused_with_both_lists(start: Any) -> None:
    found = start(OF_THREE)
    found.log.write_quorum_state(ElectionState(5, voted_id=2), found.node.voters, 0)
    start.stop()
    is_of = r"__cluster_metadata-0 belongs to a quorum with voters 1, 2, 3, but the settings define"
    with pytest.raises(InvariantError, match=rf"{is_of} 1: set controller\.quorum\.voters=1@HOST:PORT,2@HOST:PORT,3@"):
        start(ALONE)
    with pytest.raises(InvariantError, match=rf"{is_of} 1, 3: set"):
        start(node_settings(1, dict.fromkeys((1, 3), CONTROLLER)))
    assert set(start(OF_THREE).node.voters.by_id) == {1, 2, 3}


def test_voters_that_differ_are_refused_also_if_the_log_begins_with_a_snapshot(start: Any) -> None:
    found = start(OF_THREE, NoOpRecord())
    found.log.write_quorum_state(ElectionState(5, voted_id=2), found.node.voters, 0)
    found.log.committed(1)
    snapshot = SnapshotId(1, 1)
    found.log.write_snapshot(snapshot, b"".join(encode_snapshot([], epoch=1, now_ms=1, last_timestamp_ms=1)))
    found.log.add_snapshot(snapshot, Retention(-1, -1), 1)
    start.stop()
    for settings in (ALONE, node_settings(1, dict.fromkeys((1, 3), CONTROLLER))):
        with pytest.raises(InvariantError, match="belongs to a quorum with voters 1, 2, 3, but the settings define"):
            start(settings)
    assert set(start(OF_THREE).node.voters.by_id) == {1, 2, 3}


def test_sole_voter_cannot_become_one_of_several(start: Any) -> None:
    found = start(ALONE, KRaftVersionRecord(version=0, kraft_version=1), VoterSet([Voter(1, OWN)]).to_record())
    found.log.write_quorum_state(ElectionState(1, voted_id=1), found.node.voters, 1)
    start.stop()
    with pytest.raises(InvariantError, match="to a quorum with voters 1, but the settings define 1, 2, 3: "):
        start(OF_THREE)


@pytest.mark.parametrize("version", [0, 1])
def test_sole_voter_may_be_configured_or_omitted(start: Any, version: int) -> None:
    named = node_settings(1, {1: CONTROLLER})
    found = start(named)
    found.log.write_quorum_state(ElectionState(1, voted_id=1), found.node.voters, version)
    start.stop()
    assert set(start(ALONE).node.voters.by_id) == {1}
    start.stop()
    assert set(start(named).node.voters.by_id) == {1}


def test_unknown_feature_level_refuses_start(start: Any) -> None:
    with pytest.raises(InvariantError, match=r"no\.such\.feature=1"):
        start(ALONE, FeatureLevelRecord(name="no.such.feature", feature_level=1))


def test_default_settings_equal_default_raft_timing() -> None:
    assert quorum_timing(FakeSettings()) == Timing()


def test_each_timeout_has_its_setting() -> None:
    settings = FakeSettings(
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
        FakeSettings({"metadata.log.segment.bytes": str(9 << 20), "metadata.log.segment.ms": "77"})
    )
    assert (config.segment_bytes, config.segment_ms, config.cleanup_policy) == (9 << 20, 77, frozenset())
