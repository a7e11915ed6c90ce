"""franz-go's tests of its client: producing, consuming, groups under every balancer, transactions.

Outcomes are those of tests and of subtests that did not pass; passed subtests count with their test.
"""

import json
import re
from pathlib import Path

from tests.clients.conformance.outcomes import Outcome
from tests.clients.conformance.suite import PINS, Order, no_outcomes, run_logged
from tests.setups import prepared, require, run

PACKAGE = "github.com/twmb/franz-go/pkg/kgo"
MODULE = PINS / "kgo"
RECORDS = 50_000
TIMEOUT_S = 900
RESULTS = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def run_tests(order: Order) -> list[Outcome]:
    """Run the named tests, or all of them."""
    program = set_up()
    # Go's own timeout ends in a panic that names the running tests.
    options = [f"-test.timeout={TIMEOUT_S - 10}s"]
    if order.only:
        options.append(f"-test.run=^({'|'.join(sorted({name.partition('/')[0] for name in order.only}))})$")
    if order.without:
        options.append(f"-test.skip=^({'|'.join(order.without)})$")
    environment = {
        "KGO_SEEDS": order.bootstrap,
        "KGO_TEST_RF": str(min(order.brokers, 3)),
        "KGO_LOG_LEVEL": "none",
        "KGO_TEST_RECORDS": str(RECORDS),
    }
    if order.security is not None:
        environment |= {**order.security.kgo, "KGO_TEST_SCRAM_SEEDS": order.sasl_bootstrap}
    command = ("go", "tool", "test2json", "-t", program, "-test.v=test2json", *options)
    # Some tests read their own sources.
    sources = Path(run("go", "list", "-f", "{{.Dir}}", PACKAGE, cwd=MODULE).strip())
    printed = run_logged(order, command, TIMEOUT_S, sources, **environment)  # type: ignore[arg-type]  # of a type that is known here
    return outcomes(printed) or no_outcomes(order, printed)


def outcomes(printed: str) -> list[Outcome]:
    """Read the events of ``test2json``; a test that started and never ended has failed."""
    shown: dict[str, list[str]] = {}
    ended: dict[str, tuple[str, float]] = {}
    for line in printed.splitlines():
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        name, action = event.get("Test"), event["Action"]
        if name is None:
            continue
        if action == "output":
            shown.setdefault(name, []).append(event["Output"])
        elif action in RESULTS:
            ended[name] = RESULTS[action], event["Elapsed"]
    found = []
    for name, lines in shown.items():
        result, seconds = ended.get(name, ("failed", 0.0))
        if result != "passed" or "/" not in name:
            words = "".join(line for line in lines if not re.match(r"\s*(===|---)", line))
            found.append(Outcome(name, result, words[:1000], seconds))
    return found


def set_up() -> Path:
    """Fetch franz-go and build its tests."""
    require("go")

    def build(folder: Path) -> None:
        run("go", "test", "-c", "-o", folder / "kgo.test", PACKAGE, cwd=MODULE)

    return prepared("kgo", list(MODULE.iterdir()), build) / "kgo.test"
