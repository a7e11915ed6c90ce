from pathlib import Path
from typing import Any

import pytest

from storage.cleaner.segment_groups import group_segments
from storage.log.log import Log
from tests.compacted import COMPACTED, put
from tests.logs import NOW_MS, open_log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path, COMPACTED._replace(segment_bytes=1 << 20, index_interval_bytes=0))
    for _ in range(6):
        for _ in range(3):
            put(log, (b"k", b"v" * 40))
        log.roll(NOW_MS)
    return log


def groups(log: Log, end_offset: int = 18, **config: Any) -> list[list[int]]:
    found = group_segments(log.segments[:-1], end_offset, log.config._replace(**config))
    return [[segment.base_offset for segment in group] for group in found]


def test_neighbouring_segments_are_grouped_up_to_the_segment_size(log: Log) -> None:
    size = log.segments[0].size_bytes
    assert groups(log, segment_bytes=2 * size) == [[0, 3], [6, 9], [12, 15]]
    assert groups(log, segment_bytes=2 * size - 1) == [[0], [3], [6], [9], [12], [15]]
    assert groups(log) == [[0, 3, 6, 9, 12, 15]]


def test_segment_above_the_segment_size_stays_alone(log: Log) -> None:
    assert groups(log, segment_bytes=14) == [[0], [3], [6], [9], [12], [15]]


def test_index_size_bounds_a_group(log: Log) -> None:
    size = log.segments[0].offset_index.size_bytes
    assert size > 0
    assert groups(log, segment_index_bytes=3 * size) == [[0, 3, 6], [9, 12, 15]]


def test_offset_range_bounds_a_group(log: Log) -> None:
    assert groups(log, end_offset=2**31) == [[0, 3, 6, 9, 12, 15]]
    assert groups(log, end_offset=2**31 + 1) == [[0, 3, 6, 9, 12], [15]]
