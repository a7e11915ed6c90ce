import pytest

from protocol.errors import InvariantError
from storage.log.leader_epochs import EpochEnd, EpochEntry, LeaderEpochs

UNKNOWN = EpochEnd(-1, -1)


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(*entry) for entry in entries)


def test_an_epoch_begins_once() -> None:
    known = epochs()
    known.assign(2, 10)
    known.assign(2, 11)
    assert known.entries == ((2, 10),)


def test_the_latest_epoch_is_the_newest_assigned() -> None:
    assert epochs().latest is None
    assert epochs((1, 0), (4, 10)).latest == 4


def test_an_epoch_found_to_begin_earlier_is_moved() -> None:
    known = epochs((1, 0), (2, 10))
    known.assign(2, 7)
    assert known.entries == ((1, 0), (2, 7))


def test_older_epoch_removes_conflicting_entries() -> None:
    known = epochs((1, 0), (2, 10), (5, 20))
    known.assign(3, 15)
    assert known.entries == ((1, 0), (2, 10), (3, 15))


def test_epoch_replaces_an_empty_epoch_at_the_same_offset() -> None:
    known = epochs((1, 0), (2, 10))
    known.assign(3, 10)
    assert known.entries == ((1, 0), (3, 10))


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_no_epoch_or_offset_is_negative(entry: tuple[int, int]) -> None:
    with pytest.raises(InvariantError):
        epochs().assign(*entry)


def test_the_latest_epoch_ends_at_the_logs_end() -> None:
    assert epochs((1, 0), (4, 10)).end_offset_for(4, 25) == (4, 25)


def test_an_epoch_ends_where_the_next_begins() -> None:
    assert epochs((1, 0), (4, 10), (5, 20)).end_offset_for(4, 25) == (4, 20)


def test_end_of_an_epoch_without_entry_is_that_of_the_one_before() -> None:
    assert epochs((1, 0), (4, 10), (6, 20)).end_offset_for(5, 25) == (4, 20)


def test_an_epoch_before_all_ends_where_the_first_begins() -> None:
    assert epochs((3, 30), (4, 40)).end_offset_for(2, 50) == (2, 30)


def test_unknown_epoch_has_no_end() -> None:
    known = epochs((1, 0), (4, 10))
    assert known.end_offset_for(5, 25) == UNKNOWN
    assert known.end_offset_for(-1, 25) == UNKNOWN
    assert epochs().end_offset_for(0, 25) == UNKNOWN


@pytest.mark.parametrize(("offset", "epoch"), [(4, None), (5, 1), (9, 1), (10, 4), (1000, 4)])
def test_each_offset_has_the_epoch_that_covers_it(offset: int, epoch: int | None) -> None:
    assert epochs((1, 5), (4, 10)).epoch_for_offset(offset) == epoch


def test_truncation_removes_epochs_that_begin_at_the_new_end() -> None:
    known = epochs((1, 0), (2, 10), (3, 20))
    known.truncate_from_end(10)
    assert known.entries == ((1, 0),)


def test_truncation_removes_an_empty_epoch_without_removing_records() -> None:
    log_end = 20
    known = epochs((1, 0), (2, log_end))
    known.truncate_from_end(log_end)
    assert known.entries == ((1, 0),)


@pytest.mark.parametrize("end", [-1, 11, 100])
def test_truncation_beyond_the_last_epochs_start_changes_nothing(end: int) -> None:
    known = epochs((1, 0), (2, 10))
    known.truncate_from_end(end)
    assert known.entries == ((1, 0), (2, 10))


def test_the_epoch_of_the_new_log_start_begins_there() -> None:
    known = epochs((1, 0), (2, 10), (3, 20))
    known.truncate_from_start(15)
    assert known.entries == ((2, 15), (3, 20))


def test_a_log_start_beyond_all_keeps_the_latest_epoch() -> None:
    known = epochs((1, 0), (2, 10))
    known.truncate_from_start(50)
    assert known.entries == ((2, 50),)


@pytest.mark.parametrize("start", [0, 4, 5])
def test_a_log_start_up_to_the_first_epoch_changes_nothing(start: int) -> None:
    known = epochs((1, 5), (2, 10))
    known.truncate_from_start(start)
    assert known.entries == ((1, 5), (2, 10))


def test_batches_add_their_epochs_while_these_increase() -> None:
    known = epochs()
    for offset, epoch in enumerate((-1, 2, 2, 1, 4, 4)):
        known.assign_newer(epoch, offset)
    assert known.entries == ((2, 1), (4, 4))


def test_epochs_of_recovered_batches_override_the_checkpoint() -> None:
    known = epochs((1, 0), (3, 4), (6, 12))
    for offset, epoch in ((0, 1), (4, 3), (8, 3), (12, 5), (13, -1)):
        known.correct(epoch, offset, offset)
    assert known.entries == ((1, 0), (3, 4), (5, 12))


@pytest.mark.parametrize("following", [3, 4, 7])
def test_no_epoch_begins_within_a_recovered_batch(following: int) -> None:
    known = epochs((1, 0), (3, 4), (4, 6))
    known.correct(1, 0, 2)
    known.correct(3, 4, 8)
    known.correct(following, 9, 9)
    assert known.entries == ((1, 0), (3, 4), *(((following, 9),) if following > 3 else ()))


def test_epoch_directly_behind_a_recovered_batch_stays() -> None:
    known = epochs((1, 0), (3, 4), (4, 6))
    known.correct(3, 4, 5)
    assert known.entries == ((1, 0), (3, 4), (4, 6))


def test_clear_removes_all_epochs() -> None:
    known = epochs((1, 5))
    known.clear()
    assert known.entries == ()
    assert known.latest is None
