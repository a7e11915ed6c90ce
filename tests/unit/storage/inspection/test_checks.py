"""The single checks; `tests/corruption/` runs them on whole directories."""

import pytest

from protocol.record_batch import read_header
from storage.inspection.checks import EpochCheck, Located, OffsetCheck, TransactionCheck
from storage.log.leader_epochs import EpochEntry
from storage.log.producer_state import ProducerStateEntry, ProducerStateManager
from tests.logs import batch


def located(base_offset: int, count: int = 1, epoch: int = 0) -> Located:
    return Located("file", base_offset, read_header(batch(count, base_offset=base_offset, leader_epoch=epoch)))


def offsets(*bases: int, compacted: bool = False) -> list[str]:
    """Check batches of two records each; return the findings."""
    check = OffsetCheck(0, compacted=compacted)
    batches = [located(base, 2) for base in bases]
    following = [one.header for one in batches[1:]]
    return [
        finding.problem
        for one, after in zip(batches, [*following, None], strict=True)
        for finding in check.batch(one, after)
    ]


def test_contiguous_offsets_are_valid() -> None:
    assert offsets(0, 2, 4) == []


def test_base_offset_contradicted_by_its_neighbours_is_damaged() -> None:
    assert offsets(0, 9, 4) == ["9 instead of 2, the end of the previous batch"]
    assert offsets(0, 2, 1, 6) == ["1 instead of 4, the end of the previous batch"]


def test_missing_records_are_reported_unless_the_log_is_compacted() -> None:
    assert offsets(0, 8, 10) == ["8, but the previous batch ends with 1: records are missing"]
    assert offsets(0, 8, 10, compacted=True) == []


def test_offsets_never_go_back() -> None:
    assert offsets(0, 2, 3, compacted=True) == ["3 is not above 3, the last offset of the previous batch"]


def epochs(*of_batches: int, entries: tuple[tuple[int, int], ...] = ((1, 0), (2, 2)), start: int = 0) -> list[str]:
    check = EpochCheck([EpochEntry(*entry) for entry in entries], "epochs", start)
    batches = [located(offset, epoch=epoch) for offset, epoch in enumerate(of_batches)]
    following = [one.header for one in batches[1:]]
    return [
        f"{finding.path} {finding.position} {finding.field}"
        for one, after in zip(batches, [*following, None], strict=True)
        for finding in check.batch(one, after)
    ]


def test_epochs_equal_to_the_checkpoint_are_valid() -> None:
    assert epochs(1, 1, 2, 2) == []


@pytest.mark.parametrize("damaged", [(1, 0, 2, 2), (1, 1, 2, 1), (1, 1, 2, 9, 2)])
def test_epoch_between_equal_ones_is_damage_of_the_batch(damaged: tuple[int, ...]) -> None:
    (found,) = epochs(*damaged)
    assert found.startswith("file ")


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        (((1, 0), (2, 3)), "epochs 4 start_offset"),
        (((1, 0), (2, 1)), "epochs 4 start_offset"),
        (((1, 0), (3, 2)), "epochs None epoch"),
        (((1, 0),), "epochs None epoch"),
    ],
)
def test_entry_contradicted_by_the_batches_is_damage_of_the_checkpoint(
    entries: tuple[tuple[int, int], ...], found: str
) -> None:
    assert epochs(1, 1, 2, 2, entries=entries) == [found]


def test_epochs_before_the_log_start_are_not_checked() -> None:
    assert epochs(1, 1, 2, 2, entries=((1, 1), (2, 2)), start=1) == []
    assert epochs(1, 1, 2, 2, entries=((1, 1), (2, 2))) != []


def test_a_snapshot_is_compared_with_the_log() -> None:
    check = TransactionCheck(ProducerStateManager(0))
    check.batch(read_header(batch(2, producer_id=5, producer_epoch=1, base_sequence=0)), None)
    same = ProducerStateManager(2)
    same.update(read_header(batch(2, producer_id=5, producer_epoch=1, base_sequence=0)))
    assert list(check.snapshot("file", same)) == []
    other = ProducerStateManager(2, {5: ProducerStateEntry(2), 6: ProducerStateEntry(0)})
    assert [finding.field for finding in check.snapshot("file", other)] == ["producer_epoch", "producer_id"]
    check.forget()
    assert list(check.snapshot("file", other)) == []
