"""Rows of the comparison with Apache Kafka: cold and warm figures, the bound, and whether it holds.

Cold is the first round on a broker that has just started; warm is the mean of the last three rounds once three agree
(`_warmth`). The column `rounds` counts the rounds of each run: ours; Apache Kafka's. If they did not agree in a run,
the figures are inconclusive, and the last column is "unsettled".
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks._warmth import Warmed

KAFKA = "Apache Kafka"
HEADINGS = (
    "| | cold: Barnabas | beside | ratio | warm: Barnabas | beside | ratio | rounds | asked | holds |"
    "\n|---|---|---|---|---|---|---|---|---|---|"
)


class Target(NamedTuple):
    """A bound on a figure: at least, or at most, `bound` times the other's; `bound` itself if it is absolute."""

    at_least: bool
    bound: float
    absolute: bool = False

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"

    def holds(self, ours: float, theirs: float | None) -> bool:
        """Return whether the bound holds; without another's figure, against the bound itself."""
        limit = self.bound * (1 if theirs is None or self.absolute else theirs)
        return ours >= limit if self.at_least else ours <= limit


def at_least(bound: float) -> Target:
    """Return a bound: more than that many times the other's."""
    return Target(True, bound)


def at_most(bound: float) -> Target:
    """Return a bound: less than that many times the other's."""
    return Target(False, bound)


def no_more_than(bound: float) -> Target:
    """Return a bound: less, independent of the other's figure."""
    return Target(False, bound, absolute=True)


class Runs(NamedTuple):
    """The figures of one side of a row, one per run: of the first round after the start, and warm (or only these)."""

    warm: Sequence[float]
    cold: Sequence[float] = ()
    rounds: Sequence[str] = ()
    settled: bool = True


class Row(NamedTuple):
    """A row of the table: our figures and the other's. The bound applies to warm brokers."""

    name: str
    target: Target
    ours: Runs
    theirs: Runs = Runs(())
    other: str = KAFKA

    def __str__(self) -> str:
        ours, theirs = _median(self.ours.warm), _median(self.theirs.warm)
        if ours is None:
            raise ValueError(f"no figure of ours: {self.name}")
        cold = self._cells(_median(self.ours.cold), _median(self.theirs.cold))
        rounds = "; ".join(" ".join(side.rounds) for side in (self.ours, self.theirs) if side.rounds)
        holds = "yes" if self.target.holds(ours, theirs) else "NO"
        if not (self.ours.settled and self.theirs.settled):
            holds = "unsettled"
        return f"| {self.name} | {cold} | {self._cells(ours, theirs)} | {rounds} | {self.target} | {holds} |"

    def _cells(self, ours: float | None, theirs: float | None) -> str:
        """Return our figure, the other's and their ratio, as three cells."""
        beside = "" if theirs is None else f"{theirs:.3g} ({self.other})"
        ratio = "" if ours is None or not theirs else f"{ours / theirs:.2f}"
        return f"{'' if ours is None else format(ours, '.3g')} | {beside} | {ratio}"


def row(name: str, target: Target, ours: Sequence[float], theirs: Sequence[float] = (), other: str = KAFKA) -> Row:
    """Return a row of figures that do not depend on warm-up."""
    return Row(name, target, Runs(ours), Runs(theirs), other)


def runs(found: Sequence[Warmed], name: str) -> Runs:
    """Return one figure of all runs of a load."""
    return Runs(
        [one.warm[name] for one in found],
        [one.cold[name] for one in found],
        [one.summary for one in found],
        all(one.settled for one in found),
    )


def in_turn(names: Iterable[str], run: int) -> list[str]:
    """Return the names in the order of this run: every second one is reversed."""
    return list(names)[:: -1 if run % 2 else 1]


def _median(figures: Sequence[float]) -> float | None:
    return statistics.median(figures) if figures else None
