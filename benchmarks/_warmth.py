"""Rounds of a load until a broker is warm, with the figures of the first and of the last rounds.

A JVM compiles hot code, so a broker that has just started takes several times the CPU of one that has run for a minute.
A load is repeated on the same broker until it has run for `MIN_LOAD_S` and three rounds in a row differ by less than
10 %: two may agree by chance while the compiler still works. It gives up after `MOST_ROUNDS` rounds, or later if they
take less than `MIN_LOAD_S` in all. Both brokers are treated alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

AGREEMENT = 0.1
AGREEING_ROUNDS = 3
MOST_ROUNDS = 10
MIN_LOAD_S = 10.0

Figures = Mapping[str, float]


class Warmed(NamedTuple):
    """Figures by name: `cold` of the first round, `warm` the means of the last three."""

    cold: Figures
    warm: Figures
    rounds: int
    settled: bool

    @property
    def summary(self) -> str:
        """Return the number of rounds, with a mark if the last three still differed."""
        return f"{self.rounds}" if self.settled else f"{self.rounds}, still changing"


def warm_up(run: Callable[[], Figures], settles_on: str, *, clock: Callable[[], float] = time.monotonic) -> Warmed:
    """Repeat `run` until its figure `settles_on` agrees over `AGREEING_ROUNDS`, after `MIN_LOAD_S` of load."""
    began_s = clock()
    rounds: list[Figures] = []
    settled = False
    while not settled and (len(rounds) < MOST_ROUNDS or clock() - began_s < MIN_LOAD_S):
        rounds.append(run())
        last = [figures[settles_on] for figures in rounds[-AGREEING_ROUNDS:]]
        agrees = len(last) == AGREEING_ROUNDS and max(last) - min(last) < AGREEMENT * max(last)
        settled = agrees and clock() - began_s >= MIN_LOAD_S
    last_rounds = rounds[-AGREEING_ROUNDS:]
    warm = {name: sum(figures[name] for figures in last_rounds) / len(last_rounds) for name in rounds[0]}
    return Warmed(rounds[0], warm, len(rounds), settled)
