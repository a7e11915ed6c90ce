from pathlib import Path

import pytest

from storage.checkpoint import CheckpointError
from storage.log.files import LogFiles
from storage.log.leader_epochs import EpochEntry, LeaderEpochs
from storage.log.producer_state import ProducerStateManager
from tests.disks import FaultyDisk
from tests.logs import TOPIC_ID


def test_epochs_are_written_when_they_have_changed(tmp_path: Path) -> None:
    disk = FaultyDisk()
    files = LogFiles(disk, str(tmp_path))
    epochs = LeaderEpochs([EpochEntry(1, 0)])
    for _ in range(2):
        files.save_epochs(epochs)
    epochs.assign(2, 10)
    files.save_epochs(epochs)
    assert disk.called("replace") == ["leader-epoch-checkpoint"] * 2
    assert LogFiles(disk, str(tmp_path)).read_epochs().entries == ((1, 0), (2, 10))


def test_epochs_just_read_are_not_written_again(tmp_path: Path) -> None:
    disk = FaultyDisk()
    LogFiles(disk, str(tmp_path)).save_epochs(LeaderEpochs([EpochEntry(1, 0)]))
    files = LogFiles(disk, str(tmp_path))
    files.save_epochs(files.read_epochs())
    assert disk.called("replace") == ["leader-epoch-checkpoint"]


def test_missing_files_are_empty_and_damaged_epochs_an_error(tmp_path: Path) -> None:
    files = LogFiles(FaultyDisk(), str(tmp_path))
    assert files.read_epochs().entries == ()
    assert files.read_topic_id() is None
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"\xff\xff")
    with pytest.raises(CheckpointError):
        files.read_epochs()


def test_damaged_epochs_are_replaced_even_by_an_empty_list(tmp_path: Path) -> None:
    """An empty log has no epochs; its damaged file would be reported at every start."""
    (tmp_path / "leader-epoch-checkpoint").write_bytes(bytes(4))
    files = LogFiles(FaultyDisk(), str(tmp_path))
    with pytest.raises(CheckpointError):
        files.read_epochs()
    files.save_epochs(LeaderEpochs())
    assert LogFiles(FaultyDisk(), str(tmp_path)).read_epochs().entries == ()


def test_topic_id_damaged_by_a_power_cut_counts_as_missing(tmp_path: Path) -> None:
    files = LogFiles(FaultyDisk(), str(tmp_path))
    files.save_topic_id(TOPIC_ID)
    assert files.read_topic_id() == TOPIC_ID
    (tmp_path / "partition.metadata").write_bytes(bytes(40))
    assert files.read_topic_id() is None


def test_unsynced_files_are_returned_once(tmp_path: Path) -> None:
    files = LogFiles(FaultyDisk(), str(tmp_path))
    assert not files.unsynced
    files.save_topic_id(TOPIC_ID)
    files.save_epochs(LeaderEpochs([EpochEntry(1, 0)]))
    assert files.unsynced
    assert [Path(file.path).name for file in files.open_unsynced()] == ["leader-epoch-checkpoint", "partition.metadata"]  # type: ignore[unreachable]  # a call has changed it since
    files.taken()
    assert files.open_unsynced() == []


def test_unsynced_snapshot_is_returned_unless_it_is_deleted(tmp_path: Path) -> None:
    files = LogFiles(FaultyDisk(), str(tmp_path))
    for offset in (10, 20):
        files.save_producers(ProducerStateManager(offset), offset)
    files.remove_snapshots(below=20)
    assert [Path(file.path).name for file in files.open_unsynced()] == [f"{20:020d}.snapshot"]


def test_snapshots_are_named_for_their_offset_and_removed_below_one(tmp_path: Path) -> None:
    files = LogFiles(FaultyDisk(), str(tmp_path))
    for offset in (5, 10, 15):
        files.save_producers(ProducerStateManager(), offset)
    files.remove_snapshots(below=10)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{offset:020d}.snapshot" for offset in (10, 15)]
    assert files.has_snapshot(10)
    assert not files.has_snapshot(5)
