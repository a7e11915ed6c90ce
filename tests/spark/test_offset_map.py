"""Offset maps: no record is skipped, whatever was consumed and whichever runs were dropped or lost."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.offset_map import NEWEST, NumberedRun, PartitionOffsetMap, parse_record, record_key, record_value


class Copy:
    """The source offsets of records by their target offsets, and the map that was made of them."""

    def __init__(self) -> None:
        self.targets: dict[int, int] = {}
        self.map = PartitionOffsetMap()
        self.source = self.target = 0

    def transaction(self, gaps: list[int], *, lost: bool = False) -> None:
        """Copy records, each after a gap in the source, and a marker; `lost`: the map does not get the runs."""
        runs: list[list[int]] = []
        for gap in gaps:
            self.source += gap
            self.targets[self.target] = self.source
            if runs and runs[-1][0] + runs[-1][2] == self.source and runs[-1][1] + runs[-1][2] == self.target:
                runs[-1][2] += 1
            else:
                runs.append([self.source, self.target, 1])
            self.source += 1
            self.target += 1
        self.target += 1
        if not lost:
            for source, target, records in runs:
                self.map.add(source, target, records)

    def skipped(self, consumed: int) -> list[int]:
        """Return the source offsets of records that a group which consumed up to an offset would miss."""
        begins = self.map.translate(consumed) or 0
        return [source for target, source in self.targets.items() if source >= consumed and target < begins]

    def repeated(self, consumed: int) -> int:
        """Return the number of records that such a group would get again."""
        begins = self.map.translate(consumed) or 0
        return sum(source < consumed and target >= begins for target, source in self.targets.items())


gaps = st.lists(st.sampled_from([0, 0, 0, 1, 5]), min_size=1, max_size=5)


@given(st.lists(st.tuples(gaps, st.booleans()), max_size=10))
def test_no_record_is_skipped_also_if_runs_were_lost(transactions: list[tuple[list[int], bool]]) -> None:
    copy = Copy()
    for records, lost in transactions:
        copy.transaction(records, lost=lost)
    assert [copy.skipped(consumed) for consumed in range(copy.source + 3)] == [[]] * (copy.source + 3)


@given(st.lists(gaps, max_size=10))
def test_nothing_is_repeated_while_the_map_has_all_runs(transactions: list[list[int]]) -> None:
    copy = Copy()
    for records in transactions:
        copy.transaction(records)
    assert sum(map(len, transactions)) <= NEWEST
    assert [copy.repeated(consumed) for consumed in range(copy.source + 3)] == [0] * (copy.source + 3)


def test_old_runs_are_dropped_and_what_is_repeated_is_in_proportion_to_the_distance() -> None:
    copy = Copy()
    for _ in range(5000):
        copy.transaction([1])
    assert len(copy.map.runs) < 8 * NEWEST
    for consumed in range(0, copy.source, 97):
        assert copy.skipped(consumed) == []
        behind = sum(source >= consumed for source in copy.targets.values())
        assert copy.repeated(consumed) <= 1 + behind / (NEWEST / 2)


def test_a_map_goes_on_from_its_records() -> None:
    copy, again = Copy(), Copy()
    stored: dict[bytes, bytes] = {}
    for number in range(300):
        copy.transaction([number % 3])
        again.transaction([number % 3], lost=True)
        source, target = copy.source - 1, copy.target - 2
        again.map = PartitionOffsetMap(run for _, _, run in records_of(stored))
        run, dropped = again.map.add(source, target, 1)
        stored[record_key("t", 1, source)] = record_value(run)
        for old in dropped:
            del stored[record_key("t", 1, old.source)]
    assert again.map.runs == copy.map.runs


def records_of(stored: dict[bytes, bytes]) -> Iterator[tuple[str, int, NumberedRun]]:
    for key, value in stored.items():
        topic, partition, run = parse_record(key, value)
        assert (topic, partition) == ("t", 1)
        yield topic, partition, run
