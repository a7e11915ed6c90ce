"""Truncation of segments with a damaged offset index: the rest ends at the right offset and accepts appends."""

from __future__ import annotations

from pathlib import Path
from struct import pack_into

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.disk import OsDisk
from storage.log.config import LogConfig
from storage.log.segment import LogSegment
from storage.log.segment_truncation import prepare_truncation
from tests.logs import NOW_MS, bases, batch, content, fill, open_log
from tests.unit.storage.log.test_segment import BASE, INTERVAL, SIZE, append, damage_entry, damaged_entries, segment

__all__ = ["segment"]

ONE = len(batch())
CONFIG = LogConfig(segment_bytes=20 * ONE, index_interval_bytes=3 * ONE)


@damaged_entries
def test_a_damaged_index_entry_changes_no_truncation(
    segment: LogSegment, entry: int, relative_offset: int | None, position: int | None
) -> None:
    segment.seal()
    path = Path(segment.path)
    whole, index = path.read_bytes(), path.with_suffix(".index").read_bytes()
    for offset in range(BASE, BASE + 60):
        path.write_bytes(whole)
        path.with_suffix(".index").write_bytes(index)
        damage_entry(segment, entry, relative_offset, position)
        damaged = LogSegment(OsDisk(), segment.directory, BASE, NOW_MS)
        prepare_truncation(damaged, offset, INTERVAL)
        count = (offset - BASE) // 3
        assert damaged.truncate_to(offset) == BASE + 3 * count
        assert path.stat().st_size == damaged.size_bytes == count * SIZE
        append(damaged, (batch(3) for _ in range(5)), BASE + 3 * count)
        for wanted in range(BASE, BASE + 3 * count + 15):
            assert damaged.position_of(wanted) == (wanted - BASE) // 3 * SIZE


@pytest.mark.parametrize("position", [-(2**31), 7 * ONE + 20])
def test_damaged_index_neither_leaves_a_gap_nor_fails_the_directory(tmp_path: Path, position: int) -> None:
    log = open_log(tmp_path, CONFIG)
    fill(log, 50)
    log.close(NOW_MS)
    before = content(log)
    path = tmp_path / "topic-0" / f"{20:020d}.index"
    data = bytearray(path.read_bytes())
    pack_into(">i", data, 4, position)
    path.write_bytes(data)
    log = open_log(tmp_path, CONFIG)
    assert log.truncate_to(26)
    assert (log.log_end_offset, bases(log), log.offline) == (26, (0, 20), False)
    fill(log, 4)
    log.close(NOW_MS)
    assert content(open_log(tmp_path, CONFIG), max_bytes=3 * ONE)[: 26 * ONE] == before[: 26 * ONE]
    assert len(content(open_log(tmp_path, CONFIG, clean=False))) == 30 * ONE


def test_truncation_that_finds_no_position_behind_damage_changes_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    fill(log, 50)
    log.close(NOW_MS)
    path = tmp_path / "topic-0" / f"{20:020d}.log"
    data = bytearray(path.read_bytes())
    pack_into(">i", data, 5 * ONE + 8, -1)
    path.write_bytes(data)
    path.with_suffix(".index").write_bytes(b"")
    log = open_log(tmp_path, CONFIG)
    with pytest.raises(KafkaError) as refused:
        log.truncate_to(36)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert (log.log_end_offset, log.high_watermark, bases(log), log.offline) == (50, 0, (0, 20, 40), False)
    assert path.read_bytes() == data
    log.truncate_fully_and_start_at(7)
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)
