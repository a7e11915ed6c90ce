"""Every test suite, with what each took: `make test`, and with `--full` `make prove`.

A suite is a folder of tests, run by pytest in a process of its own. Two run at a time where there are two cores, as
much of what they do is waiting; the output of each comes when it has ended. Suites named on the command line run alone.
With `--full` the proofs run at their full figures: more kills, examples and states.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from tests.proofs import TOLD

# What sets up clients in other languages is in one lane, so that nothing is set up by two at a time.
LANES = (
    ("clients", "oracles", "spark", "repo", "clients/conformance"),
    ("unit", "properties", "crash", "simulation", "corruption", "scripts", "fuzz", "chaos"),
)
SUITES = tuple(suite for lane in LANES for suite in lane)
FULL_FIGURES = {
    "BARNABAS_TEST_CHAOS_RUNS": "3",
    "BARNABAS_TEST_CHAOS_SECONDS": "60",
    "BARNABAS_TEST_DROPPED_CONNECTIONS": "10000",
    "BARNABAS_TEST_EXAMPLES": "10",
    "BARNABAS_TEST_FRAMES": "400000",
    "BARNABAS_TEST_KILLS": "30",
    "BARNABAS_TEST_NEW_TOPICS": "1000",
    "BARNABAS_TEST_PIPELINES": "2000",
    "BARNABAS_TEST_SEEDS": "250",
    "BARNABAS_TEST_SIMULATED_EVENTS": "20000",
    "BARNABAS_TEST_RAFT_SEEDS": "250",
    "BARNABAS_TEST_STATES": "20000",
}
# What `make test` hands down would change what a test's own `make` does and prints.
OF_THE_OUTER_MAKE = {"ARGS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"}
OUTCOMES = re.compile(r"(\d+) (passed|failed|skipped|error)")


class Result(NamedTuple):
    """What one suite came to."""

    suite: str
    seconds: float
    counts: dict[str, int]
    failed: bool
    tried: list[str]


def main() -> int:
    """Run the suites and print a table; the status is 1 if any test failed or any suite was empty."""
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description=main.__doc__)
    parser.add_argument("suite", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)} (default: all)")
    parser.add_argument("--full", action="store_true", help="at the full figures")
    options = parser.parse_args()
    unknown = set(options.suite) - set(SUITES)
    if unknown:
        parser.error(f"no suite {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    environment = {name: value for name, value in os.environ.items() if name not in OF_THE_OUTER_MAKE}
    if options.full:
        environment |= FULL_FIGURES
    began = time.monotonic()
    chosen = [[suite for suite in lane if not options.suite or suite in options.suite] for lane in LANES]
    with ThreadPoolExecutor(max_workers=min(len(LANES), os.cpu_count() or 1)) as lanes:
        results = [result for lane in lanes.map(partial(run_in_turn, environment), chosen) for result in lane]
    report(results, began)
    return 1 if any(result.failed for result in results) else 0


def run_in_turn(environment: dict[str, str], suites: list[str]) -> list[Result]:
    """Run the suites of a lane."""
    return [run(suite, environment) for suite in suites]


def run(suite: str, environment: dict[str, str]) -> Result:
    """Run one suite, and pass its output on with the counts in it read."""
    print(f"... {suite}", flush=True)
    inner = (f"--ignore=tests/{other}" for other in SUITES if other.startswith(f"{suite}/"))
    command = [sys.executable, "-m", "pytest", f"tests/{suite}", *inner, "-q", "--durations=3", "--durations-min=1"]
    started = time.monotonic()
    counts: dict[str, int] = {}
    tried: list[str] = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as pytest:
        assert pytest.stdout is not None
        lines = []
        for line in pytest.stdout:
            lines.append(line)
            found = {outcome: int(count) for count, outcome in OUTCOMES.findall(line)}
            if found and " in " in line:
                counts = found
            if told := TOLD.match(line):
                tried.append(told[1])
    failed = pytest.returncode != 0
    sys.stdout.write("".join((f"\n=== {suite}\n", *lines)))
    sys.stdout.flush()
    return Result(suite, time.monotonic() - started, counts, failed, tried)


def report(results: list[Result], began: float) -> None:
    """Print a line a suite, the time since they `began`, what was tried, and the totals alone on the last line."""
    print(f"\n{'suite':<20}{'seconds':>9}{'passed':>9}{'failed':>9}{'skipped':>9}")
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    for result in results:
        failed = result.counts.get("failed", 0) + result.counts.get("error", 0)
        row = {**result.counts, "failed": max(failed, int(result.failed))}
        for outcome in totals:
            totals[outcome] += row.get(outcome, 0)
        figures = "".join(f"{row.get(outcome, 0):>9}" for outcome in totals)
        print(f"{result.suite:<20}{result.seconds:>9.1f}{figures}")
    print(f"{'':<20}{time.monotonic() - began:>9.1f}")
    for result in results:
        for told in result.tried:
            print(f"{result.suite}: {told}")
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")


if __name__ == "__main__":
    sys.exit(main())
