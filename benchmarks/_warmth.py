"""Rounds of a load until a broker is warm, and the figures of the first round and of the last ones.

A JVM compiles what runs often, so a broker that has just started takes several times the CPU of one that has run for a
minute. A load is repeated on the same broker until two rounds in a row differ by less than 10 %, at most `MOST_ROUNDS`
times. Both brokers are treated alike, although the first round of Barnabas is as fast as the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

AGREEMENT = 0.1
MOST_ROUNDS = 10

Figures = Mapping[str, float]


class Warmed(NamedTuple):
    """Figures by name: `cold` of the first round, `warm` the means of the last two."""

    cold: Figures
    warm: Figures
    rounds: int
    settled: bool

    @property
    def summary(self) -> str:
        """Return how often the load ran, with a mark if the last two rounds still differed."""
        return f"{self.rounds}" if self.settled else f"{self.rounds}, still changing"


def warm_up(run: Callable[[], Figures], settles_on: str) -> Warmed:
    """Repeat `run` until its figure `settles_on` of two rounds in a row differs by less than `AGREEMENT`."""
    rounds = [run()]
    settled = False
    while not settled and len(rounds) < MOST_ROUNDS:
        rounds.append(run())
        before, after = (figures[settles_on] for figures in rounds[-2:])
        settled = abs(after - before) < AGREEMENT * max(before, after)
    warm = {name: (rounds[-1][name] + rounds[-2][name]) / 2 for name in rounds[0]}
    return Warmed(rounds[0], warm, len(rounds), settled)
