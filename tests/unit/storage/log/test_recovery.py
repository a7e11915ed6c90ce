import errno
import shutil
from pathlib import Path

import pytest

from protocol.errors import KafkaError
from protocol.record_batch import assign, iter_batches
from storage.log.log import Log, LogConfig
from storage.log.recovery import RecoveryReport
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, bases, batch, content, fill, headers, open_log, stamped

SIZE = len(batch())
GOLDEN = Path(__file__).parents[3] / "golden" / "kafka_directory" / "txn-0"
CONFIG = LogConfig(segment_bytes=4 * SIZE, index_interval_bytes=SIZE)


def file(folder: Path, offset: int, suffix: str) -> Path:
    return folder / "topic-0" / f"{offset:020d}{suffix}"


def killed(folder: Path, batches: int = 10) -> bytes:
    """Write a log of segments 0, 4 and 8, leave it as kill -9 does, and return its content."""
    log = open_log(folder, CONFIG)
    fill(log, batches)
    return content(log)


def recovered(folder: Path, recovery_point: int = 0) -> Log:
    return open_log(folder, CONFIG, clean=False, recovery_point=recovery_point)


def indexes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "topic-0").glob("*.*index")}


def test_all_records_of_a_killed_process_are_recovered(tmp_path: Path) -> None:
    before = killed(tmp_path)
    log = recovered(tmp_path)
    assert content(log) == before
    assert log.recovery == RecoveryReport(scanned_bytes=10 * SIZE)
    assert not log.recovery.changed
    assert log.leader_epochs.entries == ((0, 0),)
    fill(log, 1)
    assert [header.base_offset for header in headers(log)] == list(range(11))


def test_torn_batch_at_the_end_is_truncated(tmp_path: Path) -> None:
    before = killed(tmp_path)
    file(tmp_path, 8, ".log").write_bytes(file(tmp_path, 8, ".log").read_bytes()[:-1])
    log = recovered(tmp_path)
    assert content(log) == before[: 9 * SIZE]
    assert log.recovery.truncated_bytes == SIZE - 1
    assert log.recovery.changed
    assert file(tmp_path, 8, ".log").stat().st_size == SIZE


def test_recovery_syncs_its_truncation(tmp_path: Path) -> None:
    killed(tmp_path)
    file(tmp_path, 8, ".log").write_bytes(file(tmp_path, 8, ".log").read_bytes()[:-1])
    disk = FaultyDisk()
    open_log(tmp_path, CONFIG, disk=disk, clean=False, recovery_point=8)
    calls = [(kind, Path(path).name) for kind, path in disk.calls if kind in ("truncate", "sync")]
    segment = f"{8:020}.log"
    assert ("sync", segment) in calls[calls.index(("truncate", segment)) :]


def test_damaged_batch_ends_the_log_and_later_segments_are_deleted(tmp_path: Path) -> None:
    before = killed(tmp_path)
    damaged = bytearray(file(tmp_path, 4, ".log").read_bytes())
    damaged[SIZE + 70] ^= 1
    file(tmp_path, 4, ".log").write_bytes(damaged)
    log = recovered(tmp_path)
    assert content(log) == before[: 5 * SIZE]
    assert (log.recovery.truncated_bytes, log.recovery.removed_segments) == (3 * SIZE, 1)
    assert not file(tmp_path, 8, ".log").exists()
    assert not file(tmp_path, 8, ".snapshot").exists()
    assert log.leader_epochs.entries == ((0, 0),)


def test_zeros_behind_the_last_batch_are_truncated(tmp_path: Path) -> None:
    """As in a preallocated file, or on a file system after a power cut."""
    before = killed(tmp_path)
    with open(file(tmp_path, 8, ".log"), "ab") as tail:
        tail.write(bytes(10_000))
    log = recovered(tmp_path)
    assert content(log) == before
    assert log.recovery.truncated_bytes == 10_000


def test_batch_with_a_lower_offset_ends_the_log(tmp_path: Path) -> None:
    before = killed(tmp_path)
    with open(file(tmp_path, 8, ".log"), "ab") as tail:
        tail.write(before[:SIZE])
    assert content(recovered(tmp_path)) == before


@pytest.mark.parametrize("offset", [4, 1 << 30])
def test_a_batch_whose_offset_reaches_into_the_next_segment_ends_the_log(offset: int, tmp_path: Path) -> None:
    """A base offset is outside the CRC, so no other check detects a bit flip there."""
    before = killed(tmp_path)
    damaged = bytearray(file(tmp_path, 0, ".log").read_bytes())
    damaged[3 * SIZE : 3 * SIZE + 8] = offset.to_bytes(8, "big")
    file(tmp_path, 0, ".log").write_bytes(damaged)
    log = recovered(tmp_path)
    assert content(log) == before[: 3 * SIZE]
    assert bases(log) == (0,)


def test_a_batch_of_an_earlier_epoch_than_the_one_before_ends_the_log(tmp_path: Path) -> None:
    """The leader epoch is outside the CRC too; a leader never appends an epoch before its own."""
    killed(tmp_path)
    damaged = bytearray(file(tmp_path, 8, ".log").read_bytes())
    damaged[12:16] = (5).to_bytes(4, "big")
    file(tmp_path, 8, ".log").write_bytes(damaged)
    assert recovered(tmp_path).log_end_offset == 9


def test_crash_during_recovery_leaves_no_gap(tmp_path: Path) -> None:
    """On a failure of any call, later segments are deleted before the damaged one is truncated."""
    before = killed(tmp_path)
    damaged = bytearray(file(tmp_path, 0, ".log").read_bytes())
    damaged[3 * SIZE + 70] ^= 1
    file(tmp_path, 0, ".log").write_bytes(damaged)
    disk = FaultyDisk()
    disk.arm("truncate")
    with pytest.raises(KafkaError):
        open_log(tmp_path, CONFIG, clean=False, disk=disk)
    assert content(recovered(tmp_path)) == before[: 3 * SIZE]


def test_segments_below_the_recovery_point_are_not_read(tmp_path: Path) -> None:
    killed(tmp_path)
    assert recovered(tmp_path, recovery_point=8).recovery.scanned_bytes == 2 * SIZE
    assert recovered(tmp_path, recovery_point=7).recovery.scanned_bytes == 6 * SIZE
    assert recovered(tmp_path, recovery_point=10).recovery.scanned_bytes == 2 * SIZE


def test_a_recovered_log_is_flushed_again_from_the_old_recovery_point(tmp_path: Path) -> None:
    killed(tmp_path)
    assert recovered(tmp_path, recovery_point=4).recovery_point == 4
    assert recovered(tmp_path, recovery_point=99).recovery_point == 10


def test_a_clean_start_reads_nothing_but_the_end(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    fill(log, 10)
    log.close(NOW_MS)
    again = open_log(tmp_path, CONFIG)
    assert again.recovery == RecoveryReport()
    assert (again.log_end_offset, again.recovery_point) == (10, 10)
    assert content(again) == content(log)


def test_rebuilt_indexes_are_those_of_appending(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=250, index_interval_bytes=100))
    for timestamp in (5, 9, 7, 30, 30, 8, 31, 2, 50, 49, 51, 3):
        log.append_as_leader(stamped([timestamp]), 0, NOW_MS)
    log.close(NOW_MS)
    before = indexes(tmp_path)
    for path in (tmp_path / "topic-0").glob("*.*index"):
        path.write_bytes(b"garbage")
    rebuilt = open_log(tmp_path, LogConfig(segment_bytes=250, index_interval_bytes=100), clean=False)
    rebuilt.close(NOW_MS)
    assert indexes(tmp_path) == before
    assert len(before) > 4


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "torn", "preallocated", "beyond"])
@pytest.mark.parametrize("base", [0, 8])
def test_an_implausible_index_is_rebuilt_after_a_clean_stop_too(
    suffix: str, damage: str, base: int, tmp_path: Path
) -> None:
    log = open_log(tmp_path, CONFIG._replace(segment_bytes=8 * SIZE))
    for number in range(16):
        log.append_as_leader(batch(timestamp=NOW_MS + number), 0, NOW_MS)
    log.close(NOW_MS)
    before = indexes(tmp_path)
    index = file(tmp_path, base, suffix)
    entry = 8 if suffix == ".index" else 12
    if damage == "missing":
        index.unlink()
    elif damage == "torn":
        index.write_bytes(index.read_bytes()[:-1])
    elif damage == "preallocated":
        index.write_bytes(index.read_bytes() + bytes(100 * entry))
    else:
        index.write_bytes(index.read_bytes() + b"\x7f" * entry)
    again = open_log(tmp_path, CONFIG._replace(segment_bytes=8 * SIZE))
    again.close(NOW_MS)
    if damage != "beyond" or suffix == ".index":
        assert again.recovery.rebuilt_segments == 1
        assert indexes(tmp_path) == before
    assert content(again) == content(log)


def test_damage_below_the_recovery_point_costs_no_later_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    fill(log, 10)
    log.close(NOW_MS)
    damaged = bytearray(file(tmp_path, 0, ".log").read_bytes())
    damaged[3 * SIZE + 70] ^= 1
    file(tmp_path, 0, ".log").write_bytes(damaged)
    file(tmp_path, 0, ".index").unlink()
    again = open_log(tmp_path, CONFIG)
    assert [header.base_offset for header in headers(again)] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert (again.recovery.truncated_bytes, again.recovery.removed_segments) == (SIZE, 0)


def test_damage_despite_a_clean_shutdown_is_recovered(tmp_path: Path) -> None:
    before = killed(tmp_path)
    file(tmp_path, 8, ".log").write_bytes(file(tmp_path, 8, ".log").read_bytes()[:-1])
    log = open_log(tmp_path, CONFIG, clean=True)
    assert content(log) == before[: 9 * SIZE]


def test_leftovers_of_deletions_and_replacements_are_removed(tmp_path: Path) -> None:
    before = killed(tmp_path)
    folder = tmp_path / "topic-0"
    (folder / f"{0:020d}.log.deleted").write_bytes(b"x")
    (folder / f"{2:020d}.index").write_bytes(b"x")
    (folder / "leader-epoch-checkpoint.tmp").write_bytes(b"x")
    (folder / "notes.txt").write_bytes(b"x")
    assert content(recovered(tmp_path)) == before
    names = {path.name for path in folder.iterdir()}
    assert not names & {f"{0:020d}.log.deleted", f"{2:020d}.index", "leader-epoch-checkpoint.tmp"}
    assert "notes.txt" in names


def test_epoch_beyond_the_recovered_end_is_removed(tmp_path: Path) -> None:
    killed(tmp_path, 9)
    log = recovered(tmp_path)
    fill(log, 1, epoch=7)
    file(tmp_path, 8, ".log").write_bytes(file(tmp_path, 8, ".log").read_bytes()[:-1])
    assert recovered(tmp_path).leader_epochs.entries == ((0, 0),)


def test_checkpointed_log_start_is_kept(tmp_path: Path) -> None:
    killed(tmp_path)
    log = open_log(tmp_path, CONFIG, clean=False, log_start_offset=5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 10)
    assert log.leader_epochs.entries == ((0, 5),)


def test_restored_epoch_checkpoint_begins_no_epoch_within_a_batch(tmp_path: Path) -> None:
    """The checkpoint is from when the log ended at 2; since then it was truncated and copied from another leader."""
    log = open_log(tmp_path, CONFIG)
    fill(log, 1, epoch=1)
    fill(log, 1, count=3, epoch=1)
    (tmp_path / "topic-0" / "leader-epoch-checkpoint").write_bytes(b"0\n2\n1 0\n5 2\n")
    assert recovered(tmp_path).leader_epochs.entries == ((1, 0),)


def test_batches_below_the_log_start_remove_no_later_epochs(tmp_path: Path) -> None:
    """Only the checkpoint has epoch 5, whose records are compacted away, and which begins at the log start."""
    log = open_log(tmp_path, CONFIG)
    fill(log, 1, epoch=1)
    fill(log, 1, count=3, epoch=1)
    later = batch()
    assign(later, 6, 6)
    log.append_as_follower(later, 6, NOW_MS)
    (tmp_path / "topic-0" / "leader-epoch-checkpoint").write_bytes(b"0\n3\n1 2\n5 4\n6 6\n")
    again = open_log(tmp_path, CONFIG, clean=False, log_start_offset=2)
    assert again.leader_epochs.entries == ((1, 2), (5, 4), (6, 6))


def test_log_start_past_the_recovered_end_restarts_the_log_there(tmp_path: Path) -> None:
    killed(tmp_path)
    log = open_log(tmp_path, CONFIG, clean=False, log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (50, 50, (50,))
    fill(log, 1)
    assert [header.base_offset for header in headers(log)] == [50]


def test_batches_larger_than_what_is_read_at_once_are_recovered(tmp_path: Path) -> None:
    config = LogConfig(max_message_bytes=1 << 30)
    log = open_log(tmp_path, config)
    for size in (700_000, 3_000_000, 10, 1_048_000, 500_000, 600_000):
        log.append_as_leader(batch(size=size), 0, NOW_MS)
    before = content(log)
    assert content(open_log(tmp_path, config, clean=False)) == before


# Producers


def produce(log: Log, producer_id: int, sequence: int) -> None:
    log.append_as_leader(batch(producer_id=producer_id, producer_epoch=0, base_sequence=sequence), 0, NOW_MS)


def windows(log: Log) -> dict[int, list[int]]:
    return {
        producer_id: [found.last_sequence for found in entry.batches]
        for producer_id, entry in log.producers.producers.items()
    }


@pytest.mark.parametrize("clean", [True, False])
def test_the_window_of_five_survives_a_restart(clean: bool, tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for sequence in range(12):
        produce(log, 1, sequence)
        produce(log, 2, sequence)
    if clean:
        log.close(NOW_MS)
    again = open_log(tmp_path, CONFIG, clean=clean)
    assert windows(again) == windows(log) == {1: [7, 8, 9, 10, 11], 2: [7, 8, 9, 10, 11]}
    assert again.producers.end_offset == 24


def test_damaged_snapshot_is_replaced_by_the_one_before(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for sequence in range(12):
        produce(log, 1, sequence)
    log.close(NOW_MS)
    newest = file(tmp_path, 12, ".snapshot")
    newest.write_bytes(newest.read_bytes()[:-1])
    again = open_log(tmp_path, CONFIG)
    assert windows(again) == {1: [7, 8, 9, 10, 11]}
    assert not newest.exists()


def test_damaged_only_snapshot_causes_a_scan_after_a_clean_shutdown(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for sequence in range(3):
        produce(log, 1, sequence)
    log.close(NOW_MS)
    [only] = (tmp_path / "topic-0").glob("*.snapshot")
    only.write_bytes(bytes(only.stat().st_size))
    again = open_log(tmp_path, CONFIG)
    assert windows(again) == {1: [0, 1, 2]}


def test_snapshot_of_truncated_batches_is_not_trusted(tmp_path: Path) -> None:
    """The third batch gets the offset of the last, which is truncated: the log end is unchanged, its content is not."""
    log = open_log(tmp_path, CONFIG)
    for sequence in range(4):
        produce(log, 1 + sequence // 3, sequence % 3)
    log.roll(NOW_MS)
    damaged = bytearray(file(tmp_path, 0, ".log").read_bytes())
    damaged[2 * SIZE : 2 * SIZE + 8] = (3).to_bytes(8, "big")
    file(tmp_path, 0, ".log").write_bytes(damaged)
    again = recovered(tmp_path)
    assert again.log_end_offset == 4
    assert windows(again) == {1: [0, 1, 2]}


@pytest.mark.parametrize("rolled", [True, False])
def test_a_clean_stop_syncs_the_snapshot(rolled: bool, tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, CONFIG, disk=disk)
    produce(log, 1, 0)
    if rolled:
        log.roll(NOW_MS)
    log.close(NOW_MS)
    assert f"{1:020d}.snapshot" in disk.called("sync")
    assert disk.calls[-1][0] == "sync_dir"


def test_unclean_log_without_snapshots_is_scanned_from_its_start(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for sequence in range(12):
        produce(log, sequence % 2, sequence // 2)
    for snapshot in (tmp_path / "topic-0").glob("*.snapshot"):
        snapshot.unlink()
    assert windows(recovered(tmp_path, recovery_point=12)) == windows(log)


def test_snapshots_beyond_the_end_and_between_segments_are_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for sequence in range(10):
        produce(log, 1, sequence)
    content_of_one = file(tmp_path, 4, ".snapshot").read_bytes()
    for offset in (2, 5, 11):
        file(tmp_path, offset, ".snapshot").write_bytes(content_of_one)
    recovered(tmp_path)
    found = sorted(int(path.stem) for path in (tmp_path / "topic-0").glob("*.snapshot"))
    assert found == [4, 8]


def test_log_of_apache_kafka_is_read_unchanged(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "topic-0")
    stored = (GOLDEN / f"{0:020d}.log").read_bytes()
    clean = open_log(tmp_path)
    assert content(clean) == stored
    assert not clean.recovery.changed
    unclean = open_log(tmp_path, clean=False)
    assert content(unclean) == stored
    assert unclean.log_end_offset == clean.log_end_offset == [h for _, h in iter_batches(stored)][-1].next_offset
    assert {key: value.txn_first_offset for key, value in unclean.producers.producers.items()} == {
        key: value.txn_first_offset for key, value in clean.producers.producers.items()
    }
    assert clean.topic_id != bytes(16)


@pytest.mark.parametrize(("contiguous_from", "end"), [(0, 6), (4, 6), (8, 10), (None, 10)])
def test_segment_without_its_end_ends_a_compacted_log_if_the_next_is_ours(
    tmp_path: Path, contiguous_from: int | None, end: int
) -> None:
    killed(tmp_path)
    log_file = file(tmp_path, 4, ".log")
    log_file.write_bytes(log_file.read_bytes()[: 2 * SIZE])
    log = open_log(tmp_path, CONFIG, clean=False, compacted=True, contiguous_from=contiguous_from)
    assert log.log_end_offset == end


def placed(offset: int, count: int = 1) -> bytearray:
    records = batch(count)
    assign(records, offset, 0)
    return records


def test_follower_truncated_within_a_gap_keeps_later_appends(tmp_path: Path) -> None:
    """A leader that has compacted its log sends batches with gaps in between."""
    log = open_log(tmp_path, CONFIG)
    for records in (placed(0), placed(9), placed(20, 5)):
        log.append_as_follower(records, 0, NOW_MS)
    assert log.truncate_to(22)
    assert log.log_end_offset == 10
    for offset in range(20, 30):
        log.append_as_follower(placed(offset), 0, NOW_MS)
        if offset == 20:
            log.roll(NOW_MS)
    before = content(log)
    after = open_log(tmp_path, CONFIG, clean=False, compacted=True, contiguous_from=0)
    assert content(after) == before
    assert (after.log_end_offset, after.recovery.removed_segments) == (30, 0)


def test_roll_after_truncation_within_a_gap_leaves_no_gap_between_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for records in (placed(0), placed(9), placed(20, 5)):
        log.append_as_follower(records, 0, NOW_MS)
    log.truncate_to(22)
    log.roll(NOW_MS)
    log.append_as_follower(placed(20), 0, NOW_MS)
    before = content(log)
    after = open_log(tmp_path, CONFIG, clean=False, compacted=True, contiguous_from=0)
    assert content(after) == before
    assert bases(after) == (0, 10)


def test_truncation_to_deleted_records_only_restarts_the_log_at_its_start(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for records in (placed(0), placed(9), placed(20, 5)):
        log.append_as_follower(records, 0, NOW_MS)
    log.update_high_watermark(25)
    log.advance_log_start(15)
    log.truncate_to(22)
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (15, 15, (15,))


@pytest.mark.parametrize("together", [True, False])
def test_gap_too_large_for_an_index_loses_nothing(tmp_path: Path, together: bool) -> None:
    log = open_log(tmp_path)
    fill(log, 10)
    far = 2**31 + 20
    batches = [placed(11), placed(far), placed(far + 1)]
    for records in (b"".join(batches),) if together else batches:
        log.append_as_follower(records, 0, NOW_MS)
    assert bases(log) == (0, far)
    before = content(log)
    after = open_log(tmp_path, clean=False, compacted=True, contiguous_from=0)
    assert content(after) == before
    assert bases(after) == (0, far)


def test_an_append_beyond_a_large_gap_that_fails_leaves_the_log_where_it_was(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    fill(log, 10)
    disk.arm("pwrite", errno.ENOSPC, after=1)  # a producer snapshot is written first
    with pytest.raises(KafkaError):
        log.append_as_follower(placed(2**31 + 20), 0, NOW_MS)
    log.append_as_follower(placed(10), 0, NOW_MS)
    assert bases(log) == (0, 10)
    assert [header.base_offset for header in headers(open_log(tmp_path, clean=False))] == list(range(11))


def test_batchless_segment_behind_one_without_its_end_ends_a_compacted_log_too(tmp_path: Path) -> None:
    killed(tmp_path)
    for base, size in ((4, 2 * SIZE), (8, SIZE // 2)):
        log_file = file(tmp_path, base, ".log")
        log_file.write_bytes(log_file.read_bytes()[:size])
    log = open_log(tmp_path, CONFIG, clean=False, compacted=True, contiguous_from=0)
    assert (log.log_end_offset, bases(log)) == (6, (0, 4))
