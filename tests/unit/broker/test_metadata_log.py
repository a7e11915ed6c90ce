"""The files of the metadata log, as Kafka writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.metadata_log import METADATA_TOPIC_ID, MetadataLog, Retention
from controller.raft import Entry, QuorumState
from controller.snapshot import SnapshotId, encode_snapshot
from controller.voters import Voter, VoterSet
from protocol.errors import InvariantError
from protocol.primitives import uuid_text
from protocol.records.metadata import NoOpRecord
from storage.disk import OsDisk
from storage.log_config import LogConfig
from storage.log_directory import LogDirectory
from storage.refusal import LogRefused

VOTERS = VoterSet([Voter(1, b"directory-number")])
CONFIG = LogConfig(cleanup_policy=frozenset(), file_delete_delay_ms=0)
KEEP_NOTHING, KEEP_ALL = Retention(0, 0), Retention(-1, -1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "__cluster_metadata-0"


def opened(tmp_path: Path, voters: VoterSet | None = VOTERS) -> MetadataLog:
    return MetadataLog.open(OsDisk(), LogDirectory(OsDisk(), str(tmp_path)), voters, config=CONFIG, now_ms=1000)


def append(log: MetadataLog, count: int, epoch: int = 1) -> None:
    end = log.end_offset
    flush = log.append([Entry(offset, epoch, (NoOpRecord(),)) for offset in range(end, end + count)], 1000)
    assert flush is not None
    flush.sync()
    flush.finish()
    log.committed(log.end_offset)


def snapshot(log: MetadataLog, retention: Retention, epoch: int = 1) -> SnapshotId:
    taken = SnapshotId(log.end_offset, epoch)
    data = b"".join(encode_snapshot([], epoch=epoch, now_ms=1000, last_timestamp_ms=1000, voters=VOTERS))
    log.write_snapshot(taken, data)
    log.added_snapshot(taken, retention, 1 << 60)
    return taken


def test_a_new_log_has_its_bootstrap_records_and_first_voters(tmp_path: Path, path: Path) -> None:
    log = opened(tmp_path)
    assert log.newest_snapshot == (0, 0)
    first = log.read_snapshot(SnapshotId(0, 0))
    assert (first.kraft_version, first.records) == (1, ())
    assert first.voters.by_id == VOTERS.by_id
    assert [record.name for record in log.bootstrap_records()] == ["metadata.version"]
    assert f"topic_id: {uuid_text(METADATA_TOPIC_ID)}" in (path / "partition.metadata").read_text()


def test_the_directory_is_on_the_disk_before_the_bootstrap_checkpoint_says_that_all_is_made(tmp_path: Path) -> None:
    class Recording(OsDisk):
        def sync_dir(self, path: str) -> None:
            synced.append((path, self.list_dir(path)))
            super().sync_dir(path)

    synced: list[tuple[str, list[str]]] = []
    MetadataLog.open(Recording(), LogDirectory(OsDisk(), str(tmp_path)), VOTERS, config=CONFIG, now_ms=1000)
    assert (str(tmp_path), ["__cluster_metadata-0"]) in synced


def test_voters_that_cannot_change_are_in_no_checkpoint(tmp_path: Path) -> None:
    assert opened(tmp_path, voters=None).newest_snapshot is None


def test_entries_come_back(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, 3)
    log.close(1000)
    again = opened(tmp_path)
    assert [(entry.base_offset, entry.epoch) for entry in again.read_entries(1)] == [(1, 1), (2, 1)]
    assert (again.end_offset, again.end_epoch) == (3, 1)
    assert again.bytes_since_snapshot > 0


@pytest.mark.parametrize("lost", [1, 20, 60])
def test_a_torn_end_is_refused_after_a_clean_stop_and_left_as_it_is(tmp_path: Path, path: Path, lost: int) -> None:
    log = opened(tmp_path)
    append(log, 3)
    log.close(1000)
    [file] = path.glob("*.log")
    whole = file.read_bytes()
    assert len(whole) % 3 == 0
    file.write_bytes(whole[:-lost])
    directory = LogDirectory(OsDisk(), str(tmp_path))
    directory.clean = True
    with pytest.raises(LogRefused, match=rf"{file} ends in \d+ bytes .* from byte {len(whole) // 3 * 2} on.*offset 2 "):
        MetadataLog.open(OsDisk(), directory, VOTERS, config=CONFIG, now_ms=1000)
    assert file.read_bytes() == whole[:-lost]
    directory.clean = False
    again = MetadataLog.open(OsDisk(), directory, VOTERS, config=CONFIG, now_ms=1000)
    assert (again.end_offset, again.cut_bytes) == (2, len(whole) // 3 - lost)


@pytest.mark.parametrize(("kraft_version", "voter"), [(0, bytes(16)), (1, b"directory-number")])
def test_a_vote_is_remembered(tmp_path: Path, kraft_version: int, voter: bytes) -> None:
    state = QuorumState(epoch=5, voted_id=1, voted_directory_id=voter)
    log = opened(tmp_path)
    assert log.read_quorum_state() == QuorumState()
    log.write_quorum_state(state, VOTERS, kraft_version)
    assert opened(tmp_path).read_quorum_state() == state


def test_the_file_is_apache_kafka_s(tmp_path: Path, path: Path) -> None:
    log = opened(tmp_path)
    leading = QuorumState(epoch=3, leader_id=1)
    log.write_quorum_state(leading, VOTERS, 0)
    assert (path / "quorum-state").read_text() == (
        '{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    log.write_quorum_state(leading, VOTERS, 1)
    assert (path / "quorum-state").read_text() == (
        '{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )


def test_a_damaged_quorum_state_is_not_taken_for_none(tmp_path: Path, path: Path) -> None:
    log = opened(tmp_path)
    (path / "quorum-state").write_text('{"leaderId":')
    with pytest.raises(InvariantError, match="quorum-state"):
        log.read_quorum_state()


def test_with_room_for_it_everything_is_kept(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for _ in range(3):
        append(log, 2)
        snapshot(log, KEEP_ALL)
    assert len(list(log.read_entries(0))) == 6
    log.read_snapshot(SnapshotId(0, 0))


def test_beyond_its_retention_only_the_newest_snapshot_and_the_log_after_it_stay(tmp_path: Path, path: Path) -> None:
    log = opened(tmp_path)
    append(log, 2)
    snapshot(log, KEEP_ALL)
    append(log, 2)
    newest = snapshot(log, KEEP_NOTHING)
    append(log, 1)
    assert log.newest_snapshot == newest
    stored = sorted(file.name for file in path.iterdir() if file.suffix in (".log", ".checkpoint", ".deleted"))
    assert stored == [newest.file_name, "00000000000000000004.log"]
    log.close(1000)
    again = opened(tmp_path)
    assert [entry.base_offset for entry in again.read_entries(newest.end_offset)] == [4]


def test_a_log_that_ends_before_its_snapshot_begins_after_it(tmp_path: Path, path: Path) -> None:
    log = opened(tmp_path)
    append(log, 2)
    data = b"".join(encode_snapshot([], epoch=7, now_ms=0, last_timestamp_ms=0, voters=VOTERS))
    log.write_snapshot(SnapshotId(100, 7), data)
    log.close(1000)
    again = opened(tmp_path)
    assert (again.end_offset, again.end_epoch) == (100, 7)
    assert list(again.read_entries(100)) == []
