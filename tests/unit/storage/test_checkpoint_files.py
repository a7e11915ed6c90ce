"""The content of checkpoint files; `test_log_manager.py` shows how a log manager uses them."""

import errno
import sys
from pathlib import Path

import pytest

from protocol.errors import KafkaError
from storage.checkpoint_files import CHECKPOINTS, CheckpointFiles
from storage.disk import OsDisk
from storage.log.log import Log
from storage.log_directory import CLEANED_TO, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, LogDirectory
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, fill, open_log

KEY = ("topic", 0)


class Checkpointing:
    """The files of one directory with one log, unknown at first."""

    def __init__(self, folder: Path, disk: OsDisk | None = None) -> None:
        self.directory = LogDirectory(disk or OsDisk(), str(folder))
        self.logs: dict[tuple[str, int], Log] = {}
        self.problems: list[str] = []
        self.files = CheckpointFiles(lambda _: self.logs, self.problems)
        self.folder = folder

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()


@pytest.fixture
def checkpointing(tmp_path: Path) -> Checkpointing:
    return Checkpointing(tmp_path)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path)
    fill(log, 5)
    log.roll(NOW_MS)
    log.flush(NOW_MS)
    return log


def test_each_checkpoint_file_stores_its_part_of_a_log(checkpointing: Checkpointing, log: Log) -> None:
    log.update_high_watermark(4)
    log.advance_log_start(2)
    log.cleaned_to = 3
    checkpointing.logs[KEY] = log
    checkpointing.files.write([checkpointing.directory])
    assert [checkpointing.text(name).splitlines()[2:] for name in CHECKPOINTS] == [
        ["topic 0 5"], ["topic 0 2"], ["topic 0 4"], ["topic 0 3"]
    ]  # fmt: skip


def test_log_start_and_cleaner_checkpoints_omit_default_values(checkpointing: Checkpointing, log: Log) -> None:
    checkpointing.logs[KEY] = log
    checkpointing.files.write([checkpointing.directory], [LOG_STARTS, CLEANED_TO])
    assert [checkpointing.text(name) for name in (LOG_STARTS, CLEANED_TO)] == ["0\n0\n", "0\n0\n"]
    assert not (checkpointing.folder / RECOVERY_POINTS).exists()


def test_read_values_are_stale_until_all_files_are_rewritten(checkpointing: Checkpointing) -> None:
    (checkpointing.folder / HIGH_WATERMARKS).write_text("0\n1\ntopic 0 7\n")
    found = checkpointing.files.read(checkpointing.directory)
    assert found.of_log(KEY, clean=True, contiguous_from=3) == (True, 0, 0, 7, False, 3)
    assert found.of_log(("topic", 1), clean=False, contiguous_from=None) == (False, 0, 0, 0, False, None)
    assert checkpointing.files.stale == {KEY}
    checkpointing.files.write([checkpointing.directory], [HIGH_WATERMARKS])
    assert checkpointing.files.stale == {KEY}
    checkpointing.files.write([checkpointing.directory])
    assert checkpointing.files.stale == set()


@pytest.mark.parametrize(
    ("text", "may_be", "cleaned_to"), [("0\n1\ntopic 0 7\n", True, 7), ("", True, 2), ("?", True, 2), (None, False, 2)]
)
def test_without_a_cleaner_checkpoint_each_log_may_be_compacted(
    checkpointing: Checkpointing, text: str | None, may_be: bool, cleaned_to: int
) -> None:
    if text is not None:
        (checkpointing.folder / CLEANED_TO).write_text(text)
    found = checkpointing.files.read(checkpointing.directory)
    assert found.of_log(KEY, clean=True, contiguous_from=None).compacted is may_be
    assert found.cleaned_to(KEY, log_start_offset=2) == cleaned_to
    assert len(checkpointing.problems) == (text == "?")


def test_checkpoints_keep_entries_of_a_log_that_failed_to_open(checkpointing: Checkpointing) -> None:
    (checkpointing.folder / HIGH_WATERMARKS).write_text("0\n1\ntopic 0 7\n")
    found = checkpointing.files.read(checkpointing.directory)
    checkpointing.files.could_not_open(checkpointing.directory, KEY, found)
    assert checkpointing.files.is_unopened(KEY)
    assert checkpointing.files.unopened_in == [checkpointing.directory]
    checkpointing.files.write([checkpointing.directory], sync=True)
    assert checkpointing.text(HIGH_WATERMARKS) == "0\n1\ntopic 0 7\n"
    assert checkpointing.text(LOG_STARTS) == "0\n0\n"


def test_a_recovery_point_is_the_start_of_a_segment(checkpointing: Checkpointing, log: Log) -> None:
    checkpointing.logs[KEY] = log
    checkpointing.files.truncate(log, checkpointing.directory, 3)
    assert log.recovery_point == 3
    assert checkpointing.text(RECOVERY_POINTS) == "0\n1\ntopic 0 0\n"


def test_log_starts_are_written_only_where_one_has_moved(checkpointing: Checkpointing, log: Log) -> None:
    checkpointing.logs[KEY] = log
    log.update_high_watermark(5)
    log.advance_log_start(2)
    checkpointing.files.save_log_starts([checkpointing.directory])
    assert not (checkpointing.folder / LOG_STARTS).exists()
    checkpointing.files.log_start_moved(log, checkpointing.directory)
    assert not checkpointing.files.log_starts_are_saved(checkpointing.directory)
    checkpointing.files.save_log_starts([checkpointing.directory])
    assert checkpointing.files.log_starts_are_saved(checkpointing.directory)
    assert checkpointing.text(LOG_STARTS) == "0\n1\ntopic 0 2\n"


def test_saving_one_log_start_reads_no_other_log(tmp_path: Path, log: Log) -> None:
    looks: list[LogDirectory] = []
    others = {("other", number): log for number in range(3)}

    def logs_in(directory: LogDirectory) -> dict[tuple[str, int], Log]:
        looks.append(directory)
        return {KEY: log, **others}

    directory = LogDirectory(OsDisk(), str(tmp_path))
    files = CheckpointFiles(logs_in, [])
    log.update_high_watermark(5)
    files.write([directory], [LOG_STARTS])
    for offset in (2, 3):
        log.advance_log_start(offset)
        files.log_start_moved(log, directory)
        files.save_log_starts([directory])
        assert (tmp_path / LOG_STARTS).read_text() == f"0\n1\ntopic 0 {offset}\n"
    log.truncate_fully_and_start_at(5)  # the first segment's name has the log start
    files.log_start_moved(log, directory)
    files.save_log_starts([directory])
    assert (tmp_path / LOG_STARTS).read_text() == "0\n0\n"
    assert looks == [directory]


def test_log_start_of_a_moved_log_is_not_saved(tmp_path: Path, log: Log) -> None:
    directory = LogDirectory(OsDisk(), str(tmp_path))
    files = CheckpointFiles(lambda _: {}, [])
    files.write([directory], [LOG_STARTS])
    log.update_high_watermark(5)
    log.advance_log_start(2)
    files.log_start_moved(log, directory)
    files.forget_unsaved(KEY, directory)
    assert files.log_starts_are_saved(directory)
    files.save_log_starts([directory])
    assert (tmp_path / LOG_STARTS).read_text() == "0\n0\n"


def test_failed_directory_does_not_block_log_starts_of_others(tmp_path: Path, log: Log) -> None:
    first, second = (LogDirectory(OsDisk(), str(tmp_path / name)) for name in ("a", "b"))
    (tmp_path / "b").mkdir()
    files = CheckpointFiles(lambda _: {}, [])
    for directory in (first, second):
        files.log_start_moved(log, directory)
    first.give_up(OSError("no luck"))
    with pytest.raises(KafkaError):
        files.save_log_starts([first, second])
    assert [files.log_starts_are_saved(directory) for directory in (first, second)] == [False, True]


def test_log_starts_of_a_failed_directory_do_not_count_as_saved(checkpointing: Checkpointing, log: Log) -> None:
    log.advance_log_start(2)
    checkpointing.files.log_start_moved(log, checkpointing.directory)
    checkpointing.directory.give_up(OSError(5, "broken"))
    checkpointing.files.save_log_starts([])
    assert not checkpointing.files.log_starts_are_saved(checkpointing.directory)
    references = sys.getrefcount(log)
    checkpointing.files.forget_unsaved(KEY, checkpointing.directory)
    assert sys.getrefcount(log) == references, "it was kept"


def test_failed_directory_is_reported_once_and_gets_no_more_files(tmp_path: Path) -> None:
    disk = FaultyDisk()
    checkpointing = Checkpointing(tmp_path, disk)
    disk.arm("replace", errno.EIO)
    checkpointing.files.write([checkpointing.directory])
    assert (len(checkpointing.problems), disk.called("replace")) == (1, [CHECKPOINTS[0]])
