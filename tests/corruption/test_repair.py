"""`barnabas log repair` repairs what can be repaired, loses no valid batch, prints its steps, and keeps the rest."""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.record_batch import iter_batches
from storage.disk import OsDisk
from storage.inspection.directory import check_log, check_small_file, may_be_compacted
from storage.inspection.repair import Step, repair_log, repair_small_file
from storage.log_directory import CLEANED_TO
from tests.all_files import opened
from tests.corruption.damages import LOG, Damage, every_byte, every_field
from tests.examples import TIMES
from tests.logs import content

DISK = OsDisk()
CRC_FROM = 17
EPOCH_AT = 12


def steps(folder: Path) -> list[Step]:
    log = str(folder / LOG)
    return list(repair_log(DISK, log, list(check_log(DISK, log)), compacted=False))


def repaired(folder: Path) -> list[Step]:
    taken = steps(folder)
    for step in taken:
        if step.do is not None:
            step.do()
    return taken


def batches(folder: Path) -> Iterator[bytes]:
    """Yield the part of each batch of a log that the CRC covers."""
    for file in sorted((folder / LOG).glob("*.log")):
        data = file.read_bytes()
        for at, header in iter_batches(data):
            if header.record_count:
                yield data[at + CRC_FROM : at + header.size_bytes]


def damages(folder: Path) -> list[Damage]:
    found = [*every_field(folder), *every_byte(folder, 20)]
    return [damage for damage in found if damage.path.startswith(LOG) and not may_be_valid(folder, damage)][
        :: max(1, 8 // TIMES)
    ]


def may_be_valid(folder: Path, damage: Damage) -> bool:
    """Return whether the damaged log is valid all the same: its last batch may have any later leader epoch.

    The CRC does not cover the epoch, and the leader epoch checkpoint may lag behind the last batches.
    """
    last = max((folder / LOG).glob("*.log"))
    if damage.fields or folder / damage.path != last:
        return False
    *_, (at, _) = iter_batches(last.read_bytes())
    return damage.position in range(at + EPOCH_AT, at + EPOCH_AT + 4) and damage.old < damage.new < b"\x80"


def test_repair_fixes_damage_and_loses_no_valid_batch(folder: Path, tmp_path: Path) -> None:
    before = Counter(batches(folder))
    for number, damage in enumerate(damages(folder)):
        place = tmp_path / str(number)
        shutil.copytree(folder, place)
        damage.do(place)
        shown = repaired(place)
        assert shown, damage
        assert list(check_log(DISK, str(place / LOG))) == [], damage
        lost = before - Counter(batches(place))
        assert lost.total() <= (1 if damage.path.endswith(".log") else 0), damage
        kept = b"".join(file.read_bytes() for file in (place / LOG).glob("*.damaged"))
        assert all(one[60:] in kept or damage.path.endswith(".log") for one in lost)
        assert not lost or kept
        assert repaired(place) == []
        shutil.rmtree(place)


@pytest.mark.parametrize("segment", [0, 18])
def test_repair_keeps_offsets_behind_damage_and_the_broker_reads_them(
    folder: Path, tmp_path: Path, segment: int
) -> None:
    place = tmp_path / "data"
    shutil.copytree(folder, place)
    file = place / LOG / f"{segment:020d}.log"
    data = bytearray(file.read_bytes())
    third = list(iter_batches(data))[2]
    data[third[0] + 70] ^= 1
    file.write_bytes(data)
    repaired(place)
    manager = opened(place)
    log = manager.get("t0", 0)
    assert log is not None
    read = [header for _, header in iter_batches(content(log))]
    assert [header.base_offset for header in read] == [
        header.base_offset
        for path in sorted((folder / LOG).glob("*.log"))
        for _, header in iter_batches(path.read_bytes())
    ]
    assert [header.base_offset for header in read if not header.record_count] == [third[1].base_offset]
    manager.close()


def test_repair_fills_a_missing_segment_with_an_empty_batch(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "data"
    shutil.copytree(folder, place)
    last, first = (place / LOG / f"{base:020d}" for base in (18, 0))
    batch = next(iter(iter_batches(first.with_suffix(".log").read_bytes())))[1]
    first.with_suffix(".log").write_bytes(first.with_suffix(".log").read_bytes()[: batch.size_bytes])
    repaired(place)
    assert list(check_log(DISK, str(place / LOG))) == []
    ends = [header.next_offset for _, header in iter_batches(first.with_suffix(".log").read_bytes())]
    assert ends == [batch.next_offset, 18]
    assert last.with_suffix(".log").read_bytes() == (folder / LOG / f"{18:020d}.log").read_bytes()


def test_repair_keeps_segments_with_the_same_offsets(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "data"
    shutil.copytree(folder, place)
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(place / LOG / f"{0:020d}{suffix}", place / LOG / f"{9:020d}{suffix}")
    before = {file: file.read_bytes() for file in (place / LOG).iterdir()}
    shown = repaired(place)
    assert [step.do for step in shown] == [None]
    assert {file: file.read_bytes() for file in (place / LOG).iterdir()} == before


def test_repair_changes_nothing_in_a_log_with_overlapping_segments(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "data"
    shutil.copytree(folder, place)
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(place / LOG / f"{18:020d}{suffix}", place / LOG / f"{20:020d}{suffix}")
    file = place / LOG / f"{0:020d}.log"
    file.write_bytes(flipped(file.read_bytes(), 70))
    before = {file: file.read_bytes() for file in (place / LOG).iterdir()}
    assert [step.do for step in repaired(place)] == [None]
    assert {file: file.read_bytes() for file in (place / LOG).iterdir()} == before


@pytest.mark.parametrize("epoch", [b"\0\0\0\x09", b"\x7f\xff\xff\xff"])
def test_repair_takes_the_epoch_of_the_first_batch_from_later_ones(folder: Path, tmp_path: Path, epoch: bytes) -> None:
    place = tmp_path / "data"
    shutil.copytree(folder, place)
    file = place / LOG / f"{0:020d}.log"
    whole = file.read_bytes()
    file.write_bytes(whole[:12] + epoch + whole[16:])
    repaired(place)
    assert file.read_bytes() == whole
    assert list(check_log(DISK, str(place / LOG))) == []


def test_without_the_cleaner_checkpoint_any_log_may_be_compacted(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "data"
    shutil.copytree(folder, place)
    file = place / CLEANED_TO
    file.write_text("?")
    for step in repair_small_file(DISK, str(file), list(check_small_file(DISK, str(file)))):
        assert step.do is not None
        step.do()
    assert file.with_name(f"{CLEANED_TO}.damaged").read_text() == "?"
    assert may_be_compacted(DISK, str(place / LOG))
    assert list(check_small_file(DISK, str(file))) == []


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_dry_run_changes_nothing(folder: Path) -> None:
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    damage = next(damage for damage in every_field(folder) if damage.path.endswith(".log"))
    damage.do(folder)
    assert steps(folder)
    changed = {file for file in folder.rglob("*") if file.is_file() and file.read_bytes() != before.get(file)}
    assert changed == {folder / damage.path}
    (folder / damage.path).write_bytes(before[folder / damage.path])


def test_repair_leaves_the_metadata_log_alone(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "data"
    shutil.copytree(folder, place)
    log = place / "__cluster_metadata-0"
    file = log / f"{0:020d}.log"
    file.write_bytes(file.read_bytes()[:-3])
    found = list(check_log(DISK, str(log)))
    assert [step.do for step in repair_log(DISK, str(log), found, compacted=False)] == [None] * len(found)
