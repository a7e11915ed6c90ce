"""Test suites of other projects' clients and tools, run against Barnabas: `make conformance`.

    python -m tests.clients.conformance [SUITE [TEST...]] [--brokers N] [--secured]

Each suite gets a fresh broker, or a fresh cluster of N; with `--secured` one whose listeners are all SASL_SSL, for the
suites that know security (see ``tests.clients.conformance.security``). A failed test is repeated by itself, because
some tests fail occasionally beside others; if it passes then, a separate column counts it; if it fails again, it must
be listed in ``expected/`` (see ``tests.clients.conformance.outcomes``). The exit status is 1 if an unlisted test fails
or is skipped.
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.broker_process import BrokerProcess, free_address
from tests.clients.conformance.outcomes import NOTHING, Expectation, Outcome, Verdict, expectations, judge
from tests.clients.conformance.registry import SUITES
from tests.clients.conformance.security import Security
from tests.clients.conformance.suite import EXT_CLUSTER, SUITE_ITSELF, Order, Quick, Suite

UNRUN_TIMEOUT_S = 60.0


class Line(NamedTuple):
    """A suite's line in the table."""

    suite: Suite
    verdict: Verdict
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.conformance")
    parser.add_argument("suite", nargs="?", choices=[suite.name for suite in SUITES], help="default: all")
    parser.add_argument("test", nargs="*", help="only these of its tests")
    parser.add_argument("--brokers", type=int, default=1, help="default: 1")
    parser.add_argument("--secured", action="store_true", help="all listeners SASL_SSL")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="conformance-"))
    chosen = [suite for suite in SUITES if options.suite in (None, suite.name)]
    if options.secured:
        chosen = [suite for suite in chosen if suite.secured]
    part = Quick(tuple(options.test))
    lines = [attempt(suite, part, folder / suite.name, options.brokers, options.secured) for suite in chosen]
    print_report(lines)
    print(f"\nOutput of the suites and logs of the brokers: {folder}")
    return 1 if any(line.verdict.unexpected for line in lines) else 0


def attempt(suite: Suite, part: Quick, folder: Path, brokers: int = 1, secured: bool = False) -> Line:
    """Return a suite's line, also if its set-up fails: the others run all the same."""
    try:
        return verdict_of(suite, part, folder, brokers, secured)
    except (pytest.skip.Exception, RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        print(f"FAILED {suite.name}: {error}", flush=True)
        return Line(suite, Verdict(unexpected=[Outcome(SUITE_ITSELF, "failed", str(error))]), 0)


def verdict_of(suite: Suite, part: Quick, folder: Path, brokers: int = 1, secured: bool = False) -> Line:
    """Run a suite, or a part of it; return the verdict and the seconds that it took after its set-up."""
    print(f"=== {suite.name}", flush=True)
    if secured and suite.starts_secured:
        brokers = 1  # each of its own
    expected = expectations(suite.name, brokers, secured)
    unrun = (line.pattern for line in expected if line.result == "unrun" and line.pattern not in part.only)
    suite.set_up()
    started = time.monotonic()
    security = Security(folder / "security", suite.protocol) if secured else None
    order = Order("", folder, part.only, (*part.without, *unrun), brokers, security=security)
    outcomes = run_twice(suite, order, expected)
    whole = part == Quick()
    if whole:
        outcomes += try_unrun(suite, order._replace(only=(), without=()), expected)
    verdict = judge(outcomes, expected, whole)
    if not outcomes:
        verdict.unexpected.append(Outcome(SUITE_ITSELF, "failed", "not a single test"))
    for outcome in verdict.unexpected:
        print(f"{outcome.result.upper()} {outcome.name}", *outcome.detail.splitlines()[:12], sep="\n    ", flush=True)
    return Line(suite, verdict, time.monotonic() - started)


def run_twice(suite: Suite, order: Order, expected: Sequence[Expectation]) -> list[Outcome]:
    """Run a suite on fresh brokers, then repeat each unlisted failure by itself."""
    outcomes = run_once(suite, order._replace(folder=order.folder / "all"))
    for at, outcome in enumerate(outcomes):
        listed = any(line.fits(outcome.name) for line in expected)
        if outcome.result == "failed" and not listed and outcome.name != SUITE_ITSELF:
            alone = order._replace(folder=order.folder / f"again-{at}", only=(outcome.name,), without=())
            again = [one for one in run_once(suite, alone) if one.name == outcome.name]
            if again and again[0].result == "passed":
                print(f"{outcome.name} passed by itself, after: {outcome.detail[:300]}", flush=True)
                outcomes[at] = again[0]._replace(alone=True)
    return outcomes


def try_unrun(suite: Suite, order: Order, expected: Sequence[Expectation]) -> list[Outcome]:
    """Run the ``unrun`` tests one by one for a short time; return those that pass.

    Of the lines with the same WAITS FOR column, the second is tried only if the first passes, and so on. A suite cannot
    run a pattern: such lines are tried by hand.
    """
    waiting: dict[str, list[str]] = {}
    for line in expected:
        if line.result == "unrun" and "*" not in line.pattern:
            waiting.setdefault(line.waits_for, []).append(line.pattern)
    passed: list[Outcome] = []
    for reason, names in enumerate(waiting.values()):
        for at, name in enumerate(names):
            folder = order.folder / f"unrun-{reason}-{at}"
            found = run_once(suite, order._replace(folder=folder, only=(name,), timeout_s=UNRUN_TIMEOUT_S))
            now = [one for one in found if one.name == name and one.result == "passed"]
            if not now:
                break
            passed += now
    return passed


def run_once(suite: Suite, order: Order) -> list[Outcome]:
    order.folder.mkdir(parents=True)
    if suite.settings is None or (order.security and suite.starts_secured):
        return suite.run(order)
    if order.brokers > 1 or order.security:
        with cluster(order, suite.settings) as (bootstrap, *others):
            return suite.run(order._replace(bootstrap=bootstrap, sasl_bootstrap=others[0] if others else ""))
    # The advertised port is a setting of the broker, and a test checks it; so it must be known before the start.
    address = free_address()
    settings = {"advertised.listeners": f"PLAINTEXT://{address}", **suite.settings, **suite.single}
    broker = BrokerProcess(order.folder / "broker", settings)
    broker.bootstrap = address
    with broker:
        return suite.run(order._replace(bootstrap=address))


@contextlib.contextmanager
def cluster(order: Order, settings: Mapping[str, object]) -> Iterator[list[str]]:
    """Run a cluster with replication factor 3 and min.insync.replicas 2; yield the addresses of each listener."""
    folder = order.folder / "brokers"
    folder.mkdir()
    properties = folder / "server.properties"
    copies = min(order.brokers, 3)
    replicated = {"default.replication.factor": copies, "min.insync.replicas": min(2, copies), **settings}
    options: Sequence[str] = ()
    if order.security is not None:
        replicated |= order.security.broker_settings
        options = order.security.broker_options
    properties.write_text("".join(f"{name}={value}\n" for name, value in replicated.items()))
    command: list[str | Path] = [EXT_CLUSTER, folder, str(order.brokers), properties, *options]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            listeners = process.stdout.readline().split()
            if not listeners:
                raise RuntimeError(f"the cluster did not start: see {folder}")
            yield listeners
        finally:
            process.kill()


def print_report(lines: Sequence[Line]) -> None:
    """Print the expectations, the obsolete ones, and the table."""
    for line in lines:
        waiting = [f"    {o.name}: {e.waits_for} ({e.why})" for o, e in line.verdict.waiting if e.waits_for != NOTHING]
        waiting += [f"    {e.pattern}, not run: {e.waits_for} ({e.why})" for e in line.verdict.unrun]
        obsolete = [f"    {e.pattern}" for e in line.verdict.obsolete]
        for title, named in (("waits for", waiting), ("listed, and did not need to be", obsolete)):
            if named:
                print(f"\n{line.suite.name}, {title}:", *named, sep="\n")
    titles = "".join(f"{title:>8}" for title in ("passed", "alone", "failed", "waits", "skips"))
    print(f"\n{'suite':<20}{titles}{'seconds':>9}  on Apache Kafka 4.3.1")
    for suite, verdict, seconds in lines:
        waits = len(verdict.waiting) + len(verdict.unrun)
        counts = (len(verdict.passed), len(verdict.alone), len(verdict.unexpected), waits, len(verdict.by_itself))
        print(f"{suite.name:<20}" + "".join(f"{count:>8}" for count in counts) + f"{seconds:>9.0f}  {suite.on_kafka}")


if __name__ == "__main__":
    sys.exit(main())
