"""Files of the metadata log, in Kafka's format."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.metadata.metadata_log import MetadataLog, Retention
from controller.batches import encode_entry
from controller.commands.bootstrap import bootstrap_records
from controller.raft.follower import scan
from controller.raft.log import Entry, RaftLog, SnapshotId
from controller.raft.messages import ElectionState
from controller.raft.voters import Voter, VoterSet
from controller.snapshot import encode_snapshot
from controller.topic_names import METADATA_TOPIC_ID
from protocol.errors import ErrorCode, InvariantError, KafkaError
from protocol.primitives import Buffer, uuid_text
from protocol.record_batch import BatchHeader, crc_matches
from protocol.records.metadata import NoOpRecord, decode_metadata_record
from protocol.schema import Message
from simulation.memory_disk import Effect, MemoryDisk
from simulation.power_cut import Platter
from storage.disk import OsDisk
from storage.log.config import LogConfig
from storage.log.corruption_checks import LogRefused
from storage.log_directory import LogDirectory
from storage.steps import finish
from tests.disks import FaultyDisk
from tests.typed import present

VOTERS = VoterSet([Voter(1, b"directory-number")])
CONFIG = LogConfig(cleanup_policy=frozenset(), file_delete_delay_ms=0)
KEEP_NOTHING, KEEP_ALL = Retention(0, 0), Retention(-1, -1)


class KilledError(BaseException):
    """Raised where the simulated process is killed."""


class UnsyncedDisk(MemoryDisk):
    """A disk that kills the process before a given call, and can lose unsynced data after a later start."""

    def __init__(self) -> None:
        super().__init__()
        self.effects: list[Effect] = []
        self.trace = self.effects
        self._platter = Platter(self)
        self._killed_before = ""

    def before(self, kind: str, path: str) -> None:
        if kind == self._killed_before:
            raise KilledError

    def kill_before(self, kind: str, function: Callable[..., object], *args: object) -> None:
        self._killed_before = kind
        with pytest.raises(KilledError):
            function(*args)
        self._killed_before = ""

    def power_cut(self) -> MemoryDisk:
        """Return a disk that holds synced data only."""
        for effect in self.effects:
            self._platter.follow(effect)
        return self._platter.cut_with(())


def opened_on(disk: MemoryDisk) -> MetadataLog:
    directory = LogDirectory(disk, "/data")
    directory.open()
    return MetadataLog.open(disk, directory, VOTERS, config=CONFIG, now_ms=1000)


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
    log.add_snapshot(taken, retention, 1 << 60)
    return taken


def test_a_new_log_has_its_bootstrap_records_and_first_voters(tmp_path: Path, path: Path) -> None:
    log = opened(tmp_path)
    assert log.newest_snapshot == (0, 0)
    first = log.read_snapshot(SnapshotId(0, 0))
    assert (first.kraft_version, first.records) == (1, ())
    assert present(first.voters).by_id == VOTERS.by_id
    assert log.bootstrap_records() == bootstrap_records()
    assert f"topic_id: {uuid_text(METADATA_TOPIC_ID)}" in (path / "partition.metadata").read_text()


def test_directory_is_synced_before_bootstrap_checkpoint_exists(tmp_path: Path) -> None:
    class Recording(OsDisk):
        def sync_dir(self, path: str) -> None:
            synced.append((path, self.list_dir(path)))
            super().sync_dir(path)

    synced: list[tuple[str, list[str]]] = []
    MetadataLog.open(Recording(), LogDirectory(OsDisk(), str(tmp_path)), VOTERS, config=CONFIG, now_ms=1000)
    assert (str(tmp_path), ["__cluster_metadata-0"]) in synced


def test_static_voters_are_in_no_checkpoint(tmp_path: Path) -> None:
    assert opened(tmp_path, voters=None).newest_snapshot is None


def test_entries_are_read_after_restart(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, 3)
    log.close(1000)
    again = opened(tmp_path)
    assert [(entry.base_offset, entry.epoch) for entry in again.read_entries(1)] == [(1, 1), (2, 1)]
    assert (again.end_offset, again.end_epoch) == (3, 1)
    assert again.bytes_since_snapshot > 0


@pytest.mark.parametrize("lost", [1, 20, 60])
def test_torn_log_end_after_clean_stop_is_refused_and_kept(tmp_path: Path, path: Path, lost: int) -> None:
    log = opened(tmp_path)
    append(log, 3)
    log.close(1000)
    [file] = path.glob("*.log")
    whole = file.read_bytes()
    assert len(whole) % 3 == 0
    file.write_bytes(whole[:-lost])
    directory = LogDirectory(OsDisk(), str(tmp_path))
    directory.clean = True
    problem = rf"{file} ends in \d+ bytes .* from byte {len(whole) // 3 * 2} on, at offset 2,"
    with pytest.raises(LogRefused, match=problem):
        MetadataLog.open(OsDisk(), directory, VOTERS, config=CONFIG, now_ms=1000)
    assert file.read_bytes() == whole[:-lost]
    directory.clean = False
    again = MetadataLog.open(OsDisk(), directory, VOTERS, config=CONFIG, now_ms=1000)
    assert (again.end_offset, again.truncated_bytes) == (2, len(whole) // 3 - lost)


@pytest.mark.parametrize(("kraft_version", "voter"), [(0, bytes(16)), (1, b"directory-number")])
def test_vote_is_read_after_restart(tmp_path: Path, kraft_version: int, voter: bytes) -> None:
    state = ElectionState(epoch=5, voted_id=1, voted_directory_id=voter)
    log = opened(tmp_path)
    assert log.read_quorum_state() == ElectionState()
    log.write_quorum_state(state, VOTERS, kraft_version)
    assert opened(tmp_path).read_quorum_state() == state


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_unwritable_vote_and_snapshot_part_are_storage_errors(tmp_path: Path, code: int) -> None:
    disk = FaultyDisk()
    directory = LogDirectory(disk, str(tmp_path))
    log = MetadataLog.open(disk, directory, VOTERS, config=CONFIG, now_ms=0)
    disk.arm("replace", code)
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        log.write_quorum_state(ElectionState(epoch=5), VOTERS, 1)
    assert (directory.failure is None, directory.full) == (code == errno.ENOSPC, code == errno.ENOSPC)
    directory.failure = None
    disk.arm("pwrite", code)
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        log.write_snapshot_part(SnapshotId(100, 7), 0, b"a part")


def test_start_makes_vote_of_killed_process_durable() -> None:
    disk, state = UnsyncedDisk(), ElectionState(epoch=5, voted_id=1, voted_directory_id=b"directory-number")
    disk.kill_before("sync_dir", opened_on(disk).write_quorum_state, state, VOTERS, 1)
    assert opened_on(disk).read_quorum_state() == state
    assert opened_on(disk.power_cut()).read_quorum_state() == state


def test_start_makes_snapshot_of_killed_process_durable() -> None:
    disk = UnsyncedDisk()
    log = opened_on(disk)
    append(log, 3)
    disk.kill_before("sync_dir", snapshot, log, KEEP_ALL)
    assert opened_on(disk).newest_snapshot == (3, 1)
    assert opened_on(disk.power_cut()).newest_snapshot == (3, 1)


def test_start_makes_entries_of_killed_process_durable() -> None:
    disk = UnsyncedDisk()
    log = opened_on(disk)
    append(log, 1)
    assert log.append([Entry(1, 1, (NoOpRecord(),))], 1000) is not None  # Not synced.
    assert opened_on(disk).end_offset == 2
    assert opened_on(disk.power_cut()).end_offset == 2


def test_file_equals_apache_kafkas(tmp_path: Path, path: Path) -> None:
    log = opened(tmp_path)
    leading = ElectionState(epoch=3, leader_id=1)
    log.write_quorum_state(leading, VOTERS, 0)
    assert (path / "quorum-state").read_text() == (
        '{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    log.write_quorum_state(leading, VOTERS, 1)
    assert (path / "quorum-state").read_text() == (
        '{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )


def test_damaged_quorum_state_is_refused(tmp_path: Path, path: Path) -> None:
    log = opened(tmp_path)
    (path / "quorum-state").write_text('{"leaderId":')
    with pytest.raises(InvariantError, match="quorum-state"):
        log.read_quorum_state()


def test_log_within_retention_size_is_kept(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for _ in range(3):
        append(log, 2)
        snapshot(log, KEEP_ALL)
    assert len(list(log.read_entries(0))) == 6
    log.read_snapshot(SnapshotId(0, 0))


def test_retention_keeps_newest_snapshot_and_log_after_it(tmp_path: Path, path: Path) -> None:
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


def test_log_that_ends_before_snapshot_restarts_at_snapshot_end(tmp_path: Path, path: Path) -> None:
    log = opened(tmp_path)
    append(log, 2)
    data = b"".join(encode_snapshot([], epoch=7, now_ms=0, last_timestamp_ms=0, voters=VOTERS))
    log.write_snapshot(SnapshotId(100, 7), data)
    log.close(1000)
    again = opened(tmp_path)
    assert (again.end_offset, again.end_epoch) == (100, 7)
    assert list(again.read_entries(100)) == []


def receive(log: MetadataLog, *epochs: int, records: int = 1) -> list[Entry]:
    """Append one entry per epoch as received from their leader."""
    end = log.end_offset
    sent = [Entry(end + at * records, epoch, (NoOpRecord(),) * records) for at, epoch in enumerate(epochs)]
    batches = b"".join(encode_entry(entry, 2000) for entry in sent)
    received = present(scan(batches, log.raft_log(), epochs[-1]).received)
    assert received.entries == tuple(sent)
    present(log.receive(received, 1000)).run()
    return sent


def received_snapshot(log: MetadataLog, snapshot: SnapshotId) -> bytes:
    data = b"".join(encode_snapshot([NoOpRecord()], epoch=snapshot.epoch, now_ms=0, last_timestamp_ms=0, voters=VOTERS))
    log.write_snapshot_part(snapshot, 0, data[:40])
    log.write_snapshot_part(snapshot, 40, data[40:])
    return data


def test_received_batches_are_stored_unmodified(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, 1)
    sent = receive(log, 2, 2, 5)
    log.close(1000)
    again = opened(tmp_path)
    assert list(again.read_entries(1)) == sent
    assert again.read_batches(1, 1 << 20) == b"".join(encode_entry(entry, 2000) for entry in sent)
    assert (again.end_offset, again.end_epoch, again.epochs) == (4, 5, ((1, 0), (2, 1), (5, 3)))


def test_batches_not_at_log_end_are_not_stored(tmp_path: Path) -> None:
    log = opened(tmp_path)
    receive(log, 3)
    for base_offset in (2, 0):
        batches = encode_entry(Entry(base_offset, 3, (NoOpRecord(),)), 2000)
        sent = present(scan(batches, RaftLog(base_offset, 3), 3).received)
        with pytest.raises(InvariantError, match=f"batches from {base_offset} received, but 1 is next"):
            log.receive(sent, 1000)
    assert log.end_offset == 1


def test_received_batch_is_checked_and_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked, decoded = [], []

    def counted_crc(batch: Buffer, header: BatchHeader) -> bool:
        checked.append(header.base_offset)
        return crc_matches(batch, header)

    def counted_decode(data: Buffer) -> Message:
        decoded.append(data)
        return decode_metadata_record(data)

    for module in ("controller.raft.follower", "controller.batches", "storage.log.log_validator"):
        monkeypatch.setattr(f"{module}.crc_matches", counted_crc)
    monkeypatch.setattr("controller.batches.decode_metadata_record", counted_decode)
    receive(opened(tmp_path), 1, 1, records=2)
    assert (checked, len(decoded)) == ([0, 2], 4)


def test_a_follower_reads_whole_batches_up_to_the_end_committed_or_not(tmp_path: Path) -> None:
    log = opened(tmp_path)
    sent = [encode_entry(entry, 2000) for entry in receive(log, 1, 1, 1, records=2)]
    size = len(sent[0])
    assert log.read_batches(2, 1) == sent[1], "one comes, however large"
    assert log.read_batches(0, 3 * size - 1) == sent[0] + sent[1]
    assert log.read_batches(0, 3 * size) == sent[0] + sent[1] + sent[2]
    assert log.read_batches(6, 100) == b""
    with pytest.raises(KafkaError) as refused:
        log.read_batches(7, 100)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_truncation_is_durable(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, 2)
    kept = receive(log, 2, 2, records=2)[:1]
    receive(log, 3)
    log.truncate(4)
    assert (log.end_offset, log.end_epoch, log.epochs) == (4, 2, ((1, 0), (2, 2)))
    again = opened(tmp_path)
    assert list(again.read_entries(2)) == kept
    receive(again, 7)
    assert (again.end_offset, again.end_epoch) == (5, 7)


def test_committed_entries_are_not_truncated(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, 2)
    receive(log, 2)
    with pytest.raises(InvariantError, match="cannot truncate to 1, as 2 is committed"):
        log.truncate(1)
    snapshot(log, KEEP_ALL)
    again = opened(tmp_path)
    with pytest.raises(InvariantError, match="as 3 is committed"):
        again.truncate(2)
    assert again.end_offset == 3


def test_truncation_inside_entry_is_refused(tmp_path: Path) -> None:
    log = opened(tmp_path)
    receive(log, 2, records=3)
    with pytest.raises(InvariantError, match="cannot truncate to 2, inside a batch"):
        log.truncate(2)


def test_truncation_at_log_end_changes_nothing(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, 2)
    log.truncate(2)
    assert log.end_offset == 2


def test_a_snapshot_is_read_in_parts(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, 2)
    taken = snapshot(log, KEEP_ALL)
    whole = log.read_snapshot_part(taken, 0, 1 << 20)
    assert whole.size_bytes == len(whole.data)
    assert log.read_snapshot_part(taken, 30, 7) == (whole.data[30:37], whole.size_bytes)
    with pytest.raises(KafkaError) as refused:
        log.read_snapshot_part(SnapshotId(99, 9), 0, 10)
    assert refused.value.code is ErrorCode.SNAPSHOT_NOT_FOUND


def test_log_restarts_at_end_of_received_snapshot(tmp_path: Path, path: Path) -> None:
    log = opened(tmp_path)
    append(log, 3)
    newest = SnapshotId(100, 7)
    data = received_snapshot(log, newest)
    assert log.newest_snapshot == (0, 0)
    assert finish(log.reset_to_snapshot(newest)).records == (NoOpRecord(),)
    assert (log.start_offset, log.end_offset, log.end_epoch, log.epochs) == (100, 100, 7, ())
    assert (log.oldest_snapshot, log.newest_snapshot, log.bytes_since_snapshot) == (newest, newest, 0)
    sent = receive(log, 7, 8)
    stored = sorted(file.name for file in path.iterdir() if ".checkpoint" in file.name or file.suffix == ".log")
    assert stored == [newest.file_name, "00000000000000000100.log"]
    assert (path / newest.file_name).read_bytes() == data
    again = opened(tmp_path)
    assert list(again.read_entries(100)) == sent
    assert (again.start_offset, again.end_offset, again.end_epoch) == (100, 102, 8)


def test_incomplete_snapshot_changes_nothing(tmp_path: Path, path: Path) -> None:
    log = opened(tmp_path)
    append(log, 3)
    log.write_snapshot_part(SnapshotId(100, 7), 0, b"half of it")
    with pytest.raises(InvariantError, match="cannot be read"):
        finish(log.reset_to_snapshot(SnapshotId(100, 7)))
    again = opened(tmp_path)
    assert (again.end_offset, again.newest_snapshot) == (3, (0, 0))
    assert not list(path.glob("*.part"))


def test_snapshot_below_high_watermark_is_refused(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, 3)
    received_snapshot(log, SnapshotId(2, 1))
    with pytest.raises(InvariantError, match="below 3, the high watermark"):
        finish(log.reset_to_snapshot(SnapshotId(2, 1)))


@pytest.mark.parametrize(("end_offset", "epoch"), [(100, 7), (2, 7)], ids=["ends before it", "parted from it"])
def test_log_replaced_by_received_snapshot_restarts_at_its_end_after_crash(
    tmp_path: Path, path: Path, end_offset: int, epoch: int
) -> None:
    log = opened(tmp_path)
    receive(log, 2, 2, 2)
    newest = SnapshotId(end_offset, epoch)
    received_snapshot(log, newest)
    (path / f"{newest.file_name}.part").rename(path / newest.file_name)  # Nothing else before the power cut.
    again = opened(tmp_path)
    assert (again.start_offset, again.end_offset, again.end_epoch) == (end_offset, end_offset, epoch)
    assert (again.oldest_snapshot, again.newest_snapshot) == (newest, newest)
    assert [file.name for file in path.glob("*.checkpoint")] == [newest.file_name]
    receive(again, epoch)


def test_log_that_continues_after_snapshot_is_kept(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, 2, epoch=3)
    taken = snapshot(log, KEEP_ALL, epoch=3)
    append(log, 1, epoch=3)
    log.close(1000)
    again = opened(tmp_path)
    assert (again.start_offset, again.end_offset, again.end_epoch) == (0, 3, 3)
    assert (again.oldest_snapshot, again.newest_snapshot) == ((0, 0), taken)


def test_follower_log_with_static_voters_truncates_and_resets_to_snapshot(tmp_path: Path) -> None:
    log = opened(tmp_path, voters=None)
    receive(log, 1, 1)
    log.truncate(0)
    assert (log.start_offset, log.end_offset, log.oldest_snapshot) == (0, 0, None)
    receive(log, 2, 3)
    received_snapshot(log, SnapshotId(50, 3))
    finish(log.reset_to_snapshot(SnapshotId(50, 3)))
    sent = receive(log, 3)
    again = opened(tmp_path, voters=None)
    assert list(again.read_entries(50)) == sent
    assert (again.start_offset, again.oldest_snapshot) == (50, (50, 3))
