"""What retention deletes is all that may go, and only that."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from storage.log_config import LogConfig
from storage.retention import deletable

NOW_MS = 100


class Aged(NamedTuple):
    base_offset: int
    size_bytes: int
    timestamp: int

    def retention_timestamp(self) -> int:
        return self.timestamp


@given(
    shapes=st.lists(st.tuples(st.integers(0, 30), st.integers(0, NOW_MS + 10)), min_size=1, max_size=8),
    retention_ms=st.integers(-1, NOW_MS),
    retention_bytes=st.integers(-1, 150),
    start=st.integers(0, 90),
    high_watermark=st.integers(0, 80),
    policy=st.sets(st.sampled_from(["delete", "compact"])),
)
def test_the_oldest_segments_that_may_go(
    shapes: list[tuple[int, int]],
    retention_ms: int,
    retention_bytes: int,
    start: int,
    high_watermark: int,
    policy: set[str],
) -> None:
    segments = [Aged(number * 10, *shape) for number, shape in enumerate(shapes)]
    ends = [segment.base_offset + 10 for segment in segments]
    count = deletable(
        segments,
        LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes, cleanup_policy=frozenset(policy)),
        now_ms=NOW_MS,
        log_start_offset=start,
        high_watermark=high_watermark,
        log_end_offset=ends[-1],
    )

    def may_go(number: int) -> bool:
        segment, left = segments[number], sum(each.size_bytes for each in segments[number + 1 :])
        expired = retention_ms >= 0 and NOW_MS - segment.timestamp > retention_ms
        unneeded = retention_bytes >= 0 and left >= retention_bytes
        before_start = number + 1 < len(segments) and ends[number] <= start
        return (
            ends[number] <= high_watermark
            and (number + 1 < len(segments) or segment.size_bytes > 0)
            and (before_start or ("delete" in policy and (expired or unneeded)))
        )

    assert all(may_go(number) for number in range(count))
    assert count == len(segments) or not may_go(count)
