"""Findings about indexes of damaged batches; damage to the indexes themselves is in `tests/corruption/`."""

import pytest

from protocol.record_batch import read_header
from storage.inspection.indexes import Batches, check_offset_index, check_time_index
from storage.log.index import OffsetIndex, TimeIndex
from tests.logs import batch


@pytest.mark.parametrize("number", range(8))
def test_a_damaged_base_offset_makes_only_its_own_entries_wrong(number: int) -> None:
    batches, index, times = Batches(), b"", b""
    for at in range(8):
        header = read_header(batch(1))._replace(base_offset=at, max_timestamp=1000 + at)
        index += OffsetIndex.ENTRY.pack(at, at * 100)
        times += TimeIndex.ENTRY.pack(1000 + at, at)
        batches.add(at * 100, header._replace(base_offset=1 << 30) if at == number else header)
    wrong = list(check_offset_index("x", 0, index, batches))
    assert [finding.problem for finding in wrong] == [
        f"{number} instead of {1 << 30} for the batch at byte {number * 100}"
    ]
    wrong = list(check_time_index("x", 0, times, batches, complete=True))
    assert [finding.problem for finding in wrong] == [f"no batch ends with offset {number}"]
