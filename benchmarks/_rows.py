"""Lines of the table beside Apache Kafka: what was measured, what is asked, and whether that holds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

KAFKA = "Apache Kafka"
HEADINGS = "| | Barnabas | beside | ratio | asked | holds |\n|---|---|---|---|---|---|"


class Asked(NamedTuple):
    """What a figure has to be: at least, or at most, `bound` times the other's; `bound` itself if it is absolute."""

    at_least: bool
    bound: float
    absolute: bool = False

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"

    def holds(self, ours: float, theirs: float | None) -> bool:
        """Say whether it is so; without another's figure, by the bound itself."""
        limit = self.bound * (1 if theirs is None or self.absolute else theirs)
        return ours >= limit if self.at_least else ours <= limit


def at_least(bound: float) -> Asked:
    """Ask for more than so many times the other's."""
    return Asked(True, bound)


def at_most(bound: float) -> Asked:
    """Ask for less than so many times the other's."""
    return Asked(False, bound)


def no_more_than(bound: float) -> Asked:
    """Ask for less, whatever the other's figure is."""
    return Asked(False, bound, absolute=True)


class Row(NamedTuple):
    """A line of the table: our figures and the other's, one for each run."""

    name: str
    asked: Asked
    ours: Sequence[float]
    theirs: Sequence[float] = ()
    other: str = KAFKA

    def __str__(self) -> str:
        ours = statistics.median(self.ours)
        theirs = statistics.median(self.theirs) if self.theirs else None
        beside = "" if theirs is None else f"{theirs:.3g} ({self.other})"
        ratio = "" if not theirs else f"{ours / theirs:.2f}"
        holds = "yes" if self.asked.holds(ours, theirs) else "NO"
        return f"| {self.name} | {ours:.3g} | {beside} | {ratio} | {self.asked} | {holds} |"
