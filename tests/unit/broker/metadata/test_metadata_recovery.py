"""Metadata recovery at start, from a real disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.metadata.metadata_log import MetadataLog, Retention
from broker.metadata.metadata_recovery import RecoveredMetadata, check_features, check_voters, recover_metadata
from controller.image import MetadataImage
from controller.image_builder import apply_records
from controller.raft.log import Entry, SnapshotId
from controller.raft.voter_history import VoterHistory
from controller.raft.voters import Voter, VoterSet
from controller.snapshot import encode_snapshot
from protocol.errors import InvariantError
from protocol.records.control import KRaftVersionRecord, LeaderChangeMessage
from protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    RemoveTopicRecord,
)
from protocol.schema import Message
from storage.disk import OsDisk
from storage.log.config import LogConfig
from storage.log_directory import LogDirectory
from tests.typed import present

BROKER = 4
VOTERS = VoterSet([Voter(1, b"d" * 16), Voter(2, b"e" * 16)])
STATIC = VoterSet([Voter(1)])
EMPTY = MetadataImage(cluster_id="cluster")


def setting(value: int) -> ConfigRecord:
    return ConfigRecord(resource_type=BROKER, resource_name="", name="log.cleaner.threads", value=str(value))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MetadataLog]:
    config = LogConfig(cleanup_policy=frozenset(), file_delete_delay_ms=0)
    opened = MetadataLog.open(OsDisk(), LogDirectory(OsDisk(), str(tmp_path)), None, config=config, now_ms=1)
    yield opened
    opened.close(1)


def append(log: MetadataLog, *records: Message, epoch: int = 1) -> None:
    flush = log.append([Entry(log.end_offset, epoch, records)], 1000)
    present(flush).sync()
    present(flush).finish()


def value(stored: RecoveredMetadata) -> str:
    return present(stored.image.configs(BROKER, "").get("log.cleaner.threads"))


def test_new_log_has_no_stored_metadata(log: MetadataLog) -> None:
    voters = VoterHistory(STATIC)
    stored = recover_metadata(log, EMPTY, voter_history=voters)
    assert (stored.image.offset, voters.voters, voters.kraft_version, voters.is_in_log) == (-1, STATIC, 0, False)
    assert stored.image.cluster_id == "cluster"


def test_whole_log_is_replayed_before_commit_is_known(log: MetadataLog) -> None:
    append(log, setting(1))
    append(log, setting(2), epoch=3)
    stored = recover_metadata(log, EMPTY)
    assert (value(stored), stored.image.offset, stored.image.epoch) == ("2", 1, 3)


def test_replay_stops_at_requested_offset(log: MetadataLog) -> None:
    append(log, setting(1))
    append(log, setting(2), epoch=3)
    stored = recover_metadata(log, EMPTY, up_to=1)
    assert (value(stored), stored.image.offset, stored.image.epoch) == ("1", 0, 1)


def test_replay_starts_at_newest_snapshot(log: MetadataLog) -> None:
    append(log, setting(1))
    log.committed(1)
    snapshot = SnapshotId(1, 1)
    data = encode_snapshot([setting(8)], epoch=1, now_ms=1000, last_timestamp_ms=1000, voters=VOTERS)
    log.write_snapshot(snapshot, b"".join(data))
    log.add_snapshot(snapshot, Retention(-1, -1), 1000)
    voters = VoterHistory(STATIC)
    stored = recover_metadata(log, EMPTY, voter_history=voters)
    assert (value(stored), stored.image.offset) == ("8", 0)
    assert (voters.voters.by_id, voters.kraft_version) == (VOTERS.by_id, 1)
    append(log, setting(9))
    assert value(recover_metadata(log, EMPTY)) == "9"


def test_quorum_control_records_are_recovered(log: MetadataLog) -> None:
    change = LeaderChangeMessage(version=0, leader_id=1, voters=[], granting_voters=[])
    version = KRaftVersionRecord(version=0, kraft_version=1)
    append(log, change, version, VOTERS.to_record())
    voters = VoterHistory(STATIC)
    assert recover_metadata(log, EMPTY, voter_history=voters).image.offset == 2
    assert (voters.voters.by_id, voters.kraft_version, voters.is_in_log) == (VOTERS.by_id, 1, True)


def test_inconsistent_records_refuse_start(log: MetadataLog) -> None:
    append(log, RemoveTopicRecord(topic_id=b"t" * 16))
    with pytest.raises(InvariantError):
        recover_metadata(log, EMPTY)


@pytest.mark.parametrize(
    ("name", "level", "problem"),
    [("metadata.version", 99, "=99, which is above"), ("no.such.feature", 1, "=1, which is unknown to this version")],
)
def test_later_metadata_version_refuses_start(name: str, level: int, problem: str) -> None:
    image = apply_records(EMPTY, [FeatureLevelRecord(name=name, feature_level=level)], offset=0, epoch=1)
    with pytest.raises(InvariantError, match=f"{name}{problem}"):
        check_features(image, 0, "/data")


def test_only_supported_metadata_version_is_accepted() -> None:
    check_features(EMPTY, 1, "/data")
    with pytest.raises(InvariantError, match="version=2"):
        check_features(EMPTY, 2, "/data")


def test_configured_voters_must_equal_stored_voters_if_any() -> None:
    check_voters([1, 2], [2, 1], "place")
    check_voters([1], [], "place")
    with pytest.raises(InvariantError, match=r"place belongs to a quorum with voters 1, 2, but the settings define 1:"):
        check_voters([1], [2, 1], "place")


def test_records_of_a_transaction_count_only_once_it_has_ended(log: MetadataLog) -> None:
    append(log, setting(1))
    append(log, BeginTransactionRecord(), setting(2))
    append(log, setting(3))
    stored = recover_metadata(log, EMPTY)
    assert (value(stored), stored.image.offset, stored.transaction.is_open) == ("1", 3, True)
    append(log, EndTransactionRecord())
    stored = recover_metadata(log, EMPTY)
    assert (value(stored), stored.image.offset, stored.transaction.is_open) == ("3", 4, False)
    append(log, BeginTransactionRecord(), setting(4))
    append(log, AbortTransactionRecord())
    assert value(recover_metadata(log, EMPTY)) == "3"
