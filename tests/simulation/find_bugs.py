"""`make sim-bugs`: try seeds with each planted bug; print the seeds that find it, and the other findings."""

from __future__ import annotations

import argparse
import sys
from functools import cache
from typing import NamedTuple

from tests.planting import Bug, planted, survey, unplanted
from tests.simulation import bugs, cluster_bugs, credential_bugs, transaction_bugs
from tests.simulation.simulation import Outcome, run

EVENTS = 6_000
EVENTS_OF_CLUSTERS = 20_000
ALL = (*bugs.BUGS, *cluster_bugs.BUGS, *transaction_bugs.BUGS, *credential_bugs.BUGS)


class Scenario(NamedTuple):
    """What the seeds of a table of bugs choose from."""

    events: int
    brokers: int
    transactions: bool = False
    credentials: bool = False


ONE_BROKER = Scenario(EVENTS, 1)
CLUSTERS = Scenario(EVENTS_OF_CLUSTERS, 3)
TRANSACTIONS = Scenario(EVENTS_OF_CLUSTERS, 3, transactions=True)
CREDENTIALS = Scenario(EVENTS, 3, credentials=True)


def scenario_of(bug: Bug) -> Scenario:
    """Return the scenario of a bug's seeds."""
    if bug in transaction_bugs.BUGS:
        return TRANSACTIONS
    if bug in credential_bugs.BUGS:
        return CREDENTIALS
    return CLUSTERS if bug in cluster_bugs.BUGS else ONE_BROKER


def outcome_of(bug: Bug, seed: int) -> BaseException | None:
    """Return the outcome of a run with a bug; `NeverCalledError` if the run does not call a patched function."""
    with planted(bug.plant) as planter:
        error = _run(seed, scenario_of(bug)).error
    planter.require_calls()
    return error


def control_of(bug: Bug, seed: int) -> BaseException | None:
    """Return the outcome of the same run without the bug, cached: many bugs share a seed."""
    with unplanted(bug.plant) as planter:
        return control(seed, scenario_of(bug), tuple(planter.tuned)).error


@cache
def control(seed: int, scenario: Scenario, tuned: tuple[str, ...] = ()) -> Outcome:
    """Return the outcome of a seed without any bug; `tuned` are the changes to the workload."""
    return _run(seed, scenario)


def _run(seed: int, scenario: Scenario) -> Outcome:
    return run(
        seed,
        scenario.events,
        scenario.brokers,
        transactions=scenario.transactions,
        credentials=scenario.credentials,
    )


def main() -> int:
    """Search for every bug; the exit status is 1 if one was not found."""
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
