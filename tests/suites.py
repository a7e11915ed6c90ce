"""Run every test suite and print the duration of each: `make test`, and with `--full` `make prove`.

A suite is a folder of tests. It is divided into parts of a few minutes at most, each run by its own pytest process. The
parts are a queue, longest first, and two more processes run than there are cores, because many parts wait half of their
time. The output of a part is printed when it ends. A client set-up in another language is made once
(`tests.setups.prepared`). Suites named on the command line run alone. With `--full` the proofs run with more kills,
examples and states. The end lists each missing tool with the number of tests skipped for it. Ctrl-C, SIGTERM or SIGHUP
ends all processes, and the status is 130.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.proofs import REPORTED

# Approximate seconds of each on two cores at everyday figures; only order and proportions matter.
SECONDS = {
    "simulation": 430,
    "unit": 330,
    "clients": 470,
    "applications": 350,
    "spark": 450,
    "clients/conformance": 150,
    "oracles": 200,
    "chaos": 210,
    "repo": 250,
    "kit": 320,
    "crash": 60,
    "properties": 50,
    "fuzz": 30,
    "corruption": 20,
    "scripts": 10,
}
SUITES = tuple(SECONDS)
# Target duration of a part.
PART_S = 150
FULL_FIGURES = {
    "BARNABAS_TEST_ACL_STORMS": "25",
    "BARNABAS_TEST_APPLICATION_KILLS": "12",
    "BARNABAS_TEST_APPLICATION_SEEDS": "1000",
    "BARNABAS_TEST_CHAOS_RUNS": "3",
    "BARNABAS_TEST_CHAOS_SECONDS": "60",
    "BARNABAS_TEST_COMPILED_QUERIES": "1",
    "BARNABAS_TEST_DEMO_DAYS": "365",
    "BARNABAS_TEST_DROPPED_CONNECTIONS": "10000",
    "BARNABAS_TEST_EXAMPLES": "10",
    "BARNABAS_TEST_EXAMPLE_RUNS": "1000",
    "BARNABAS_TEST_FLOODING_CONNECTIONS": "200",
    "BARNABAS_TEST_FRAMES": "400000",
    "BARNABAS_TEST_JOB_KILLS": "3",
    "BARNABAS_TEST_KILLS": "30",
    "BARNABAS_TEST_MATRIX_ROUNDS": "7",
    "BARNABAS_TEST_NEW_TOPICS": "1000",
    "BARNABAS_TEST_OWN_JAVA": "1",
    "BARNABAS_TEST_PIPELINES": "2000",
    "BARNABAS_TEST_SECURED_SUITES": "1",
    "BARNABAS_TEST_SECURE_CHAOS_RUNS": "1",
    "BARNABAS_TEST_SEEDS": "250",
    "BARNABAS_TEST_SIMULATED_EVENTS": "20000",
    "BARNABAS_TEST_RAFT_SEEDS": "250",
    "BARNABAS_TEST_SMOKE_RECORDS": "1000",
    "BARNABAS_TEST_SPARK_EXAMPLE": "1",
    "BARNABAS_TEST_SPARK_WORKERS": "2",
    "BARNABAS_TEST_STATES": "20000",
    "BARNABAS_TEST_UNFINISHED_HANDSHAKES": "10000",
    "BARNABAS_TEST_WIDE_TOPIC": "200",
}
# Variables of `make test` that would change the behaviour and output of a test's own `make`.
OF_THE_OUTER_MAKE = {"ARGS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"}
# Without cached bytecode, each of some hundred processes compiles the server: a start takes twice the CPU time.
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
OUTCOMES = re.compile(r"(\d+) (passed|failed|skipped|error)")
INTERRUPTED = 128 + signal.SIGINT
# Time for pytest to tear down its fixtures, and their brokers, after an interrupt.
GRACE_S = 10
MISSING = re.compile(r"SKIPPED \[(\d+)\] .*not installed: (.+)")


class Part(NamedTuple):
    """A suite, or those of its test files that one process runs."""

    suite: str
    files: tuple[str, ...]
    seconds: float


class Result(NamedTuple):
    """The result of one suite."""

    suite: str
    seconds: float
    counts: dict[str, int]
    failed: bool
    tried: list[str]
    missing: Counter[str]


class Running:
    """The processes that run parts; each leads a process group with all processes that its tests start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self.ended = False

    def start(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[str] | None:
        """Start a process whose output is a pipe; None after `end`."""
        with self._lock:
            if self.ended:
                return None
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,  # a group in the background cannot read the terminal
                stdout=subprocess.PIPE,
                text=True,
                process_group=0,
            )
            self._processes.add(process)
            return process

    def remove(self, process: subprocess.Popen[str]) -> None:
        """Drop a process that has ended: its id may be reused."""
        with self._lock:
            self._processes.discard(process)

    def end(self) -> None:
        """Interrupt all processes; kill their groups after `GRACE_S`, or on another Ctrl-C."""
        with self._lock:
            self.ended = True
            processes = list(self._processes)
        try:
            for process in processes:
                _signal(process, signal.SIGINT)
            deadline = time.monotonic() + GRACE_S
            for process in processes:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0, deadline - time.monotonic()))
        except KeyboardInterrupt:
            pass
        for process in processes:
            _signal(process, signal.SIGKILL)


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def main() -> int:
    """Run the suites and print a table; the status is 1 if any test failed or any suite was empty."""
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description=main.__doc__)
    parser.add_argument("suite", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)} (default: all)")
    parser.add_argument("--full", action="store_true", help="at the full figures")
    options = parser.parse_args()
    unknown = set(options.suite) - set(SUITES)
    if unknown:
        parser.error(f"no suite {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    environment = part_environment(os.environ)
    if options.full:
        environment |= FULL_FIGURES
    began = time.monotonic()
    queue = longest_first([part for suite in options.suite or SUITES for part in parts(suite)])
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    running = Running()
    with ThreadPoolExecutor(max_workers=(os.cpu_count() or 1) + 2) as processes:
        try:
            results = merged(processes.map(partial(run, environment=environment, running=running), queue))
        except KeyboardInterrupt:
            running.end()
            print("Interrupted: all tests were ended", file=sys.stderr)
            return INTERRUPTED
    report(results, began)
    return 1 if any(result.failed for result in results) else 0


def part_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the parts."""
    return {name: value for name, value in environment.items() if name not in OF_THE_OUTER_MAKE | {NO_BYTECODE}}


def parts(suite: str, root: Path = Path("tests")) -> list[Part]:
    """Return the parts of a suite, each of about `PART_S`; each test file is in exactly one."""
    inner = [root / other for other in SUITES if other.startswith(f"{suite}/")]
    files = [file for file in sorted((root / suite).rglob("test_*.py")) if not set(inner) & set(file.parents)]
    number = max(1, min(round(SECONDS[suite] / PART_S), len(files)))
    # Adjacent files often share slow fixtures, so they stay together.
    sizes = [len(files) // number + (at < len(files) % number) for at in range(number)]
    ends = [sum(sizes[: at + 1]) for at in range(number)]
    return [
        Part(suite, tuple(map(str, files[end - size : end])), SECONDS[suite] / number)
        for size, end in zip(sizes, ends, strict=True)
    ]


def longest_first(queue: list[Part]) -> list[Part]:
    """Return the parts in starting order."""
    return sorted(queue, key=lambda part: -part.seconds)


def merged(results: Iterable[Result]) -> list[Result]:
    """Return the sum of the parts of each suite."""
    of_suites: dict[str, Result] = {}
    for part in results:
        so_far = of_suites.get(part.suite, Result(part.suite, 0, {}, False, [], Counter()))
        of_suites[part.suite] = Result(
            part.suite,
            so_far.seconds + part.seconds,
            dict(Counter(so_far.counts) + Counter(part.counts)),
            so_far.failed or part.failed,
            so_far.tried + part.tried,
            so_far.missing + part.missing,
        )
    return [of_suites[suite] for suite in SUITES if suite in of_suites]


def run(part: Part, environment: dict[str, str], running: Running) -> Result:
    """Run one part, print its output unless `running` has ended, and return the result with the output's counts."""
    suite = part.suite
    command = [sys.executable, "-m", "pytest", *part.files, "-q", "-ra", "--durations=3", "--durations-min=1"]
    started = time.monotonic()
    counts: dict[str, int] = {}
    tried: list[str] = []
    missing: Counter[str] = Counter()
    pytest = running.start(command, environment)
    if pytest is None:
        return Result(suite, 0, {}, True, [], missing)
    print(f"... {suite}: {len(part.files)} files", flush=True)
    with pytest:
        assert pytest.stdout is not None
        lines = []
        for line in pytest.stdout:
            lines.append(line)
            found = {outcome: int(count) for count, outcome in OUTCOMES.findall(line)}
            if found and " in " in line:
                counts = found
            if reported := REPORTED.match(line):
                tried.append(reported[1])
            missing += tools_in(line)
    running.remove(pytest)
    failed = pytest.returncode != 0
    if not running.ended:
        sys.stdout.write("".join((f"\n=== {suite}\n", *lines)))
        sys.stdout.flush()
    return Result(suite, time.monotonic() - started, counts, failed, tried, missing)


def tools_in(line: str) -> Counter[str]:
    """Return the number of skipped tests by missing tool in a line of pytest's summary."""
    found = MISSING.match(line)
    return Counter({tool: int(found[1]) for tool in found[2].strip().split(", ")}) if found else Counter()


def report(results: list[Result], began: float) -> None:
    """Print a line for each suite, the time since `began`, the counts of tried cases, and last the totals."""
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
        for reported in result.tried:
            print(f"{result.suite}: {reported}")
    missing = sum((result.missing for result in results), Counter[str]())
    if missing:
        print("skipped for want of a tool:")
        for tool, count in sorted(missing.items()):
            print(f"  {tool:<12}{count:>5} tests")
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")


if __name__ == "__main__":
    sys.exit(main())
