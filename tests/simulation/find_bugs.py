"""`make sim-bugs`: try seeds with each planted bug, and print which find it, and what the others break."""

from __future__ import annotations

import argparse
import sys

from tests.planting import Bug, planted, survey
from tests.simulation import bugs, cluster_bugs
from tests.simulation.simulation import run

EVENTS = 6_000
EVENTS_OF_CLUSTERS = 20_000
ALL = (*bugs.BUGS, *cluster_bugs.BUGS)


def outcome_of(bug: Bug, seed: int) -> BaseException | None:
    """Return what a run with a bug ends with; `NeverCalledError` if the run does not reach what is patched."""
    with planted(bug.plant) as planter:
        error = run(seed, EVENTS_OF_CLUSTERS, 3).error if bug in cluster_bugs.BUGS else run(seed, EVENTS).error
    planter.require_calls()
    return error


def main() -> int:
    """Look for every bug; the status is 1 if one was not found."""
    parser = argparse.ArgumentParser(prog="make sim-bugs", description=main.__doc__)
    parser.add_argument("bug", nargs="*", help="only these")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument(
        "--nearby", action="store_true", help="try those near the recorded seed of each, and not from 1"
    )
    parser.add_argument("--most", type=int, default=1, help="stop when so many have found a bug; 0: never")
    options = parser.parse_args()
    missed = 0
    for bug in ALL:
        if not options.bug or bug.name in options.bug:
            seeds = bug.nearby if options.nearby else range(1, options.seeds + 1)
            line = survey(bug, outcome_of, seeds, options.most)
            missed += "found by 0" in line
            print(line, flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
