from pathlib import Path

import pytest

import storage.log.loader
from protocol.errors import KafkaError
from protocol.primitives import ZERO_UUID
from storage.disk import OsDisk
from storage.log.log import LogConfig
from storage.log_directory import LogDirectory
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, TOPIC_ID, bases, batch, fill, open_log

SIZE = len(batch())
CONFIG = LogConfig(segment_bytes=4 * SIZE, index_interval_bytes=SIZE)


def test_missing_log_is_created(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point, bases(log)) == (0, 0, 0, (0,))


@pytest.mark.parametrize(("clean", "recovery_point"), [(True, 10), (False, 6)])
def test_everything_counts_as_durable_only_after_a_clean_stop(tmp_path: Path, clean: bool, recovery_point: int) -> None:
    log = open_log(tmp_path, CONFIG)
    fill(log, 10)
    log.close(NOW_MS)
    again = open_log(tmp_path, CONFIG, clean=clean, recovery_point=6)
    assert (again.log_end_offset, again.recovery_point) == (10, recovery_point)


def test_recovery_point_is_at_most_the_log_end(tmp_path: Path) -> None:
    fill(open_log(tmp_path, CONFIG), 3)
    assert open_log(tmp_path, CONFIG, clean=False, recovery_point=6).recovery_point == 3


def test_partition_metadata_is_written_once(tmp_path: Path) -> None:
    assert open_log(tmp_path, CONFIG).topic_id == ZERO_UUID
    assert open_log(tmp_path, CONFIG, topic_id=TOPIC_ID).topic_id == TOPIC_ID
    assert open_log(tmp_path, CONFIG).topic_id == TOPIC_ID
    assert open_log(tmp_path, CONFIG, topic_id=bytes(16)[:-1] + b"1").topic_id == TOPIC_ID


def test_epochs_missing_from_the_checkpoint_are_read_from_the_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for epoch in (1, 1, 4, 6):
        fill(log, 1, epoch=epoch)
    assert not (tmp_path / "topic-0" / "leader-epoch-checkpoint").exists()
    again = open_log(tmp_path, CONFIG, clean=False)
    assert again.leader_epochs.entries == ((1, 0), (4, 2), (6, 3))
    assert open_log(tmp_path, CONFIG).leader_epochs.entries == again.leader_epochs.entries


def test_damaged_epoch_checkpoint_is_rebuilt_from_all_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for epoch in (1, 1, 4, 6, 6, 6):
        fill(log, 1, epoch=epoch)
    log.close(NOW_MS)
    (tmp_path / "topic-0" / "leader-epoch-checkpoint").write_bytes(b"0\nnonsense\n")
    assert open_log(tmp_path, CONFIG).leader_epochs.entries == ((1, 0), (4, 2), (6, 3))


def test_file_in_place_of_the_log_is_no_disk_failure(tmp_path: Path) -> None:
    directory = LogDirectory(OsDisk(), str(tmp_path))
    (tmp_path / "topic-0").write_text("")
    with pytest.raises(KafkaError, match="topic-0 is a file: move it away"):
        storage.log.loader.open_log(OsDisk(), directory, "topic", 0, CONFIG, now_ms=NOW_MS)
    assert directory.failure is None


def test_recovery_logs_what_it_truncated_and_where(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 3)
    file, size = tmp_path / "topic-0" / f"{0:020d}.log", log.size_bytes
    data = bytearray(file.read_bytes())
    data[size // 3 + 70] ^= 1
    file.write_bytes(data)
    again = open_log(tmp_path, clean=False)
    shown = f"{size // 3 * 2} bytes truncated, from the first damaged batch on, at byte {size // 3} of {file.name}"
    assert str(again.recovery) == shown
    assert again.recovery.lost


def test_an_index_that_is_missing_is_no_loss(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 3)
    log.close(NOW_MS)
    (tmp_path / "topic-0" / f"{0:020d}.index").unlink()
    again = open_log(tmp_path)
    assert str(again.recovery) == "1 segment scanned, for a missing or implausible index"
    assert not again.recovery.lost


@pytest.mark.parametrize("name", [f"{3:020d}.snapshot", "leader-epoch-checkpoint", "partition.metadata"])
def test_recreated_small_files_are_logged(tmp_path: Path, name: str) -> None:
    log = open_log(tmp_path)
    fill(log, 3)
    log.close(NOW_MS)
    (tmp_path / "topic-0" / name).write_text("garbage")
    again = open_log(tmp_path)
    assert f"{name} could not be read, and was reset" in str(again.recovery)
    assert again.recovery.changed
    assert again.recovery.lost


def test_compacted_log_emptied_by_a_power_cut_has_no_epochs(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    fill(log, 3, epoch=1)
    log.close(NOW_MS)
    folder = tmp_path / "topic-0"
    (folder / "00000000000000000000.log").write_bytes(b"")
    for suffix in (".log", ".index", ".timeindex"):
        (folder / f"00000000000000000053{suffix}").touch()
    again = open_log(tmp_path, CONFIG, clean=False, compacted=True)
    assert (again.log_end_offset, again.leader_epochs.entries) == (53, ())


@pytest.mark.parametrize("content", [None, b"", bytes(40)])
def test_records_with_a_lost_topic_id_may_be_of_a_deleted_topic(tmp_path: Path, content: bytes | None) -> None:
    log = open_log(tmp_path, topic_id=TOPIC_ID)
    assert not log.maybe_former
    path = tmp_path / "topic-0/partition.metadata"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert not open_log(tmp_path, clean=False).maybe_former  # there are none
    fill(log, 2)
    assert open_log(tmp_path, clean=False).maybe_former
    assert not open_log(tmp_path, clean=True).maybe_former


def test_flushed_log_has_a_durable_topic_id(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=SIZE), topic_id=TOPIC_ID)
    fill(log, 2)
    (tmp_path / "topic-0/partition.metadata").unlink()
    assert len(bases(log)) == 2
    assert not open_log(tmp_path, clean=False).maybe_former


def test_unsynced_topic_id_of_a_killed_process_is_synced_by_the_next_flush(tmp_path: Path) -> None:
    open_log(tmp_path, topic_id=TOPIC_ID)
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk, clean=False)
    log.append_as_leader(batch(), 0, NOW_MS)
    log.flush(NOW_MS)
    assert "partition.metadata" in disk.called("sync")
