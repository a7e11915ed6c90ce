"""The benchmarks' evaluation of their figures: when a broker is warm, and the text of a table row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from benchmarks import kit
from benchmarks._rows import Row, Target, at_least, at_most, runs
from benchmarks._warmth import MOST_ROUNDS, Figures, Warmed, warm_up


class Load:
    """Rounds with known figures and durations on a simulated clock."""

    def __init__(self, figures: Sequence[float], seconds: float) -> None:
        self._figures: Iterator[float] = iter(figures)
        self._seconds = seconds
        self.now = 0.0

    def run(self) -> Figures:
        self.now += self._seconds
        return {"MB/s": next(self._figures)}

    def warmed(self) -> Warmed:
        return warm_up(self.run, "MB/s", clock=lambda: self.now)


def test_load_is_warm_when_three_rounds_agree() -> None:
    assert Load([50, 100, 101, 150, 151, 152, 1], 10).warmed() == ({"MB/s": 50}, {"MB/s": 151}, 6, True)


def test_rounds_that_drift_apart_in_small_steps_do_not_agree() -> None:
    drifting = [100 * 1.06**number for number in range(MOST_ROUNDS)]
    found = Load(drifting, 10).warmed()
    assert (found.rounds, found.settled, found.summary) == (10, False, "10, still changing")


def test_short_rounds_repeat_until_minimum_warm_up_time() -> None:
    assert Load([100] * 50, 0.5).warmed().rounds == 20
    assert Load([100] * 50, 2.0).warmed().rounds == 5


@pytest.mark.parametrize(
    ("target", "settled", "holds"),
    [(at_least(1), True, "yes"), (at_most(0.5), True, "NO"), (at_least(1), False, "unsettled")],
)
def test_row_reports_its_bound_only_if_both_sides_have_settled(target: Target, settled: bool, holds: str) -> None:
    ours = runs([Warmed({"MB/s": 2}, {"MB/s": 2}, 3, settled=True)], "MB/s")
    theirs = runs([Warmed({"MB/s": 1}, {"MB/s": 1}, 10, settled)], "MB/s")
    assert str(Row("MB/s", target, ours, theirs)).endswith(f" {holds} |")


def test_table_of_the_kit_has_a_row_for_each_figure_and_a_gap_where_there_is_none() -> None:
    lines = list(kit.table({"Barnabas": {name: 1.0 for name, _, _ in kit.FIGURES}, "other": {kit.FIRST: 2.5}}))
    assert lines[0] == "| | Barnabas | other | bound |"
    assert lines[2] == "| first broker ready, s | 1.00 | 2.50 | 0.35 |"
    assert lines[3] == "| further broker ready, ms | 1.0 |  | 40 |"
    assert len(lines) == 2 + len(kit.FIGURES)


def test_figures_of_the_kit_are_medians_of_runs() -> None:
    runs_of = iter(({"a": 3.0}, {"a": 1.0}, {"a": 2.0}))
    assert kit.medians(lambda: next(runs_of), 3) == {"a": 2.0}
