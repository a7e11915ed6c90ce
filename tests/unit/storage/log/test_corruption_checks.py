"""The reasons for which a log is not opened; `tests/chaos/test_bad_directories.py` has whole programs."""

import shutil
from pathlib import Path

import pytest

from storage.log.config import LogConfig
from storage.log.corruption_checks import LogRefused, refuse_file
from storage.log.log import Log
from tests.logs import NOW_MS, batch, fill, open_log

SIZE = len(batch())
CONFIG = LogConfig(segment_bytes=4 * SIZE, index_interval_bytes=SIZE)
SUFFIXES = (".log", ".index", ".timeindex", ".snapshot")


def written(folder: Path) -> None:
    """Write a log of segments 0, 4 and 8, cleanly closed."""
    log = open_log(folder, CONFIG)
    fill(log, 10)
    log.close(NOW_MS)


def reopened(folder: Path, *, clean: bool = True, recovery_point: int = 0, log_start_offset: int = 0) -> Log:
    return open_log(folder, CONFIG, clean=clean, recovery_point=recovery_point, log_start_offset=log_start_offset)


def file(folder: Path, offset: int, suffix: str = ".log") -> Path:
    return folder / "topic-0" / f"{offset:020d}{suffix}"


def lose(folder: Path, offset: int) -> None:
    for suffix in SUFFIXES:
        file(folder, offset, suffix).unlink(missing_ok=True)


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_cleanly_closed_log_is_opened(tmp_path: Path) -> None:
    written(tmp_path)
    assert reopened(tmp_path).log_end_offset == 10


@pytest.mark.parametrize(("clean", "recovery_point"), [(True, 0), (False, 10)])
def test_log_with_a_missing_segment_is_refused(tmp_path: Path, clean: bool, recovery_point: int) -> None:
    written(tmp_path)
    lose(tmp_path, 4)
    before = content(tmp_path)
    with pytest.raises(LogRefused, match=f"{file(tmp_path, 8)} begins at offset 8, but .* ends with 3: a segment is"):
        reopened(tmp_path, clean=clean, recovery_point=recovery_point)
    assert content(tmp_path) == before


def test_missing_unsynced_segments_are_left_to_recovery(tmp_path: Path) -> None:
    written(tmp_path)
    lose(tmp_path, 4)
    reopened(tmp_path, clean=False, recovery_point=4)


def test_missing_segments_at_the_log_start_are_accepted(tmp_path: Path) -> None:
    written(tmp_path)
    lose(tmp_path, 0)
    assert reopened(tmp_path).log_start_offset == 4


@pytest.mark.parametrize("sign", ["checkpoint", "lost checkpoint", "gap within", "no batch", "deleted"])
def test_in_a_compacted_log_offsets_may_be_missing(tmp_path: Path, sign: str) -> None:
    written(tmp_path)
    lose(tmp_path, 4)
    if sign == "checkpoint":
        (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\ntopic 0 8\n")
    elif sign == "lost checkpoint":
        (tmp_path / "cleaner-offset-checkpoint").touch()
    elif sign == "no batch":
        for suffix in (".log", ".index", ".timeindex"):
            file(tmp_path, 0, suffix).write_bytes(b"")
    elif sign == "deleted":
        file(tmp_path, 4, ".log.deleted").touch()
    else:
        records = bytearray(file(tmp_path, 0).read_bytes())
        del records[SIZE : 2 * SIZE]
        file(tmp_path, 0).write_bytes(records)
        for suffix in (".index", ".timeindex"):
            file(tmp_path, 0, suffix).unlink()
    assert reopened(tmp_path).log_end_offset == 10


@pytest.mark.parametrize("at", [5, 7])
def test_log_with_overlapping_segments_is_refused(tmp_path: Path, at: int) -> None:
    written(tmp_path)
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(file(tmp_path, 4, suffix), file(tmp_path, at, suffix))
    before = content(tmp_path)
    with pytest.raises(LogRefused, match="two segments have the same offsets"):
        reopened(tmp_path)
    assert content(tmp_path) == before


@pytest.mark.parametrize("magic", [0, 1, 3])
@pytest.mark.parametrize("clean", [True, False])
def test_batches_of_another_format_are_not_truncated(tmp_path: Path, magic: int, clean: bool) -> None:
    written(tmp_path)
    data = bytearray(file(tmp_path, 8).read_bytes())
    data[16] = data[SIZE + 16] = magic
    file(tmp_path, 8).write_bytes(data)
    with pytest.raises(LogRefused, match=f"{file(tmp_path, 8)} begins with a batch of format version {magic}"):
        reopened(tmp_path, clean=clean)


def test_one_batch_of_another_format_is_damage_after_a_crash(tmp_path: Path) -> None:
    written(tmp_path)
    data = bytearray(file(tmp_path, 8).read_bytes())
    data[16] = 3
    file(tmp_path, 8).write_bytes(data)
    assert reopened(tmp_path, clean=False).log_end_offset == 8


def test_leading_zeros_are_no_other_format(tmp_path: Path) -> None:
    written(tmp_path)
    data = file(tmp_path, 8).read_bytes()
    file(tmp_path, 8).write_bytes(bytes(len(data)))
    assert reopened(tmp_path, clean=False).log_end_offset == 8


def test_log_start_beyond_the_log_end_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(LogRefused, match="topic-0 starts at offset 11, but the log ends at 10"):
        reopened(tmp_path, log_start_offset=11)
    assert reopened(tmp_path, log_start_offset=10).log_end_offset == 10


def test_crashed_log_that_lost_its_end_starts_at_the_log_start(tmp_path: Path) -> None:
    written(tmp_path)
    assert reopened(tmp_path, clean=False, log_start_offset=11).log_end_offset == 11


@pytest.mark.parametrize(
    ("name", "text"), [("leader-epoch-checkpoint", "1\n0\n"), ("partition.metadata", "version: 1\ntopic_id: x")]
)
def test_file_of_a_later_version_is_not_treated_as_damaged(tmp_path: Path, name: str, text: str) -> None:
    written(tmp_path)
    (tmp_path / "topic-0" / name).write_text(text)
    with pytest.raises(LogRefused, match=f"{name}, line 1: version 1 is unknown, .* later version"):
        reopened(tmp_path)


def test_unsound_index_does_not_refuse_the_log(tmp_path: Path) -> None:
    written(tmp_path)
    file(tmp_path, 4, ".index").write_bytes(bytes(80))
    assert reopened(tmp_path).log_end_offset == 10


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_directory_in_place_of_a_file_refuses_the_log(tmp_path: Path, suffix: str) -> None:
    written(tmp_path)
    file(tmp_path, 8, suffix).unlink()
    file(tmp_path, 8, suffix).mkdir()
    with pytest.raises(
        LogRefused, match=rf"{8:020d}{suffix} is a directory, .* restore the file, or move the directory away"
    ):
        reopened(tmp_path)


def test_file_in_place_of_a_known_log_refuses_the_start() -> None:
    known = {("t", 0)}
    with pytest.raises(LogRefused, match=r"^/data/t-0 is a file, but was a log's directory"):
        refuse_file("/data/t-0", known)
    for path in ("/data/notes-2024", "/data/notes.txt", "/t-0/meta.properties"):
        refuse_file(path, known)
