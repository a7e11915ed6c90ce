"""Replace recorded seeds that no longer find their planted bugs: `python -m tests.renew_bugs --help`.

Seeds of other bugs are tried first: the control run of a seed is made once for all bugs.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tests.crash import bugs as crash_bugs
from tests.crash import metadata_bugs
from tests.planting import Bug, OutcomeOf, outcomes
from tests.simulation import bugs, cluster_bugs, credential_bugs, find_bugs, raft_bugs, transaction_bugs


class Table(NamedTuple):
    """The planted bugs of one module, and the functions that run a seed with and without one."""

    path: Path
    bugs: Sequence[Bug]
    outcome_of: OutcomeOf
    control_of: OutcomeOf


def _table(module: object, checker: object) -> Table:
    path = Path(module.__file__)  # type: ignore[attr-defined]
    return Table(path, module.BUGS, checker.outcome_of, checker.control_of)  # type: ignore[attr-defined]


TABLES = (
    _table(bugs, find_bugs),
    _table(cluster_bugs, find_bugs),
    _table(transaction_bugs, find_bugs),
    _table(credential_bugs, find_bugs),
    _table(raft_bugs, raft_bugs),
    _table(crash_bugs, crash_bugs),
    _table(metadata_bugs, crash_bugs),
)


def candidates(bug: Bug, used: Counter[int], most: int, *, share: bool) -> Iterator[int]:
    """Yield the seeds to try: the recorded one first, or with `share` those of most other bugs."""
    common = [seed for seed, _ in used.most_common()]
    return iter(dict.fromkeys(chain(common if share else [bug.seed, *common], range(most))))


def renewed(bug: Bug, table: Table, seeds: Iterator[int]) -> int | None:
    """Return the first seed that finds a bug, and finds nothing without it."""
    for outcome in outcomes(bug, table.outcome_of, seeds):
        if outcome.found and table.control_of(bug, outcome.seed) is None:
            return outcome.seed
    return None


def record(source: str, bug: Bug, seed: int) -> str:
    """Return the source of a bug module with a new seed for `bug`; the number of nearby seeds is not counted."""
    row = re.compile(rf"(Bug\((?:\w+\.)?{bug.name}, \w+\.\w+), \d+, \d+\)")
    written, rows = row.subn(rf"\1, {seed}, 0)", source)
    assert rows == 1, f"{bug.name} has {rows} rows"
    return written


def main() -> int:
    """Replace stale seeds; return 1 if no seed finds a bug."""
    parser = argparse.ArgumentParser(prog="python -m tests.renew_bugs", description=main.__doc__)
    parser.add_argument("bug", nargs="*", help="only these")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--share", action="store_true", help="change seeds that find their bug for more common ones")
    options = parser.parse_args()
    missed = 0
    for table in TABLES:
        used = Counter(bug.seed for bug in table.bugs)
        for bug in table.bugs:
            if options.bug and bug.name not in options.bug:
                continue
            used[bug.seed] -= 1
            seed = renewed(bug, table, candidates(bug, used, options.seeds, share=options.share))
            used[bug.seed if seed is None else seed] += 1
            if seed is None:
                missed += 1
            elif seed != bug.seed:
                table.path.write_text(record(table.path.read_text(), bug, seed))
            print(f"{bug.name}: {bug.seed} -> {seed}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
