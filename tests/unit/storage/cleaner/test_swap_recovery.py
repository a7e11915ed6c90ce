"""The states that a segment swap, ours or Apache Kafka's, may leave; `test_segment_swap.py` runs all of ours."""

from pathlib import Path

import pytest

from protocol.record_batch import build_batch
from storage.cleaner.swap_recovery import finish_swaps, is_leftover
from storage.disk import OsDisk
from storage.log.segment import SEGMENT_SUFFIXES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a log directory with segments at 0, 10 and 20."""
    for base in (0, 10, 20):
        segment(tmp_path, base, base + 9)
    return tmp_path


def segment(folder: Path, base: int, last: int, suffix: str = "") -> None:
    content = build_batch([(b"k", suffix.encode())], base_offset=last)
    for kind in SEGMENT_SUFFIXES:
        (folder / f"{base:020d}{kind}{suffix}").write_bytes(content if kind == ".log" else b"")


def logs(folder: Path) -> dict[int, str]:
    """Return the content of each segment by base offset; fail if there are other files."""
    finish_swaps(OsDisk(), str(folder))
    finish_swaps(OsDisk(), str(folder))
    assert not [path.name for path in folder.iterdir() if is_leftover(path.name)]
    return {int(path.stem): ".swap" if b".swap" in path.read_bytes() else "" for path in sorted(folder.glob("*.log"))}


def test_incomplete_cleaned_segment_is_deleted(folder: Path) -> None:
    segment(folder, 0, 19, ".cleaned")
    assert logs(folder) == {0: "", 10: "", 20: ""}


def test_complete_swap_segment_replaces_its_sources(folder: Path) -> None:
    segment(folder, 0, 19, ".swap")
    assert logs(folder) == {0: ".swap", 20: ""}


def test_partly_renamed_cleaned_segment_is_deleted(folder: Path) -> None:
    segment(folder, 10, 29, ".swap")
    (folder / f"{10:020d}.index.swap").rename(folder / f"{10:020d}.index.cleaned")
    assert logs(folder) == {0: "", 10: "", 20: ""}


@pytest.mark.parametrize("kind", SEGMENT_SUFFIXES)
def test_swap_with_begun_renames_is_completed(folder: Path, kind: str) -> None:
    segment(folder, 0, 19, ".swap")
    for path in folder.glob(f"{10:020d}.*"):
        path.unlink()
    (folder / f"{0:020d}{kind}.swap").rename(folder / f"{0:020d}{kind}")
    assert logs(folder) == {0: ".swap", 20: ""}


@pytest.mark.parametrize("kind", SEGMENT_SUFFIXES[1:])
def test_index_lost_by_a_power_cut_is_not_replaced_by_the_old_one(folder: Path, kind: str) -> None:
    segment(folder, 0, 19, ".swap")
    (folder / f"{0:020d}{kind}.swap").unlink()
    assert logs(folder) == {0: ".swap", 20: ""}
    assert not (folder / f"{0:020d}{kind}").exists()


def test_other_files_stay(folder: Path) -> None:
    (folder / "notes.swap").write_text("mine")
    logs(folder)
    assert (folder / "notes.swap").exists()
