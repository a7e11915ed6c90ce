"""Outcomes of a suite's tests, compared with the expected ones.

A suite's ``expected/NAME.txt`` lists its tests that do not pass, a line each, in four or five columns:

    NAME      the test, or a pattern of names with ``*``; the first matching line counts
    OUTCOME   ``fails``, ``skips``, or ``unrun``: it is not run
    WAITS FOR the missing feature; ``nothing`` if it does not pass on Apache Kafka 4.3.1 either
    WHY       in words
    SAYS      text that the test's own message contains; a test that fails or skips with another message is not the one
              that is listed. Every new ``fails`` line has one; optional for the other outcomes

Lines with ``several brokers`` in WAITS FOR apply to runs on a single broker only, those with ``security`` to runs
without it. ``expected/NAME-cluster.txt`` and ``NAME-secured.txt``, if they exist, have the lines that precede these in
runs on several brokers, and on secured ones.

Two or more spaces separate the columns; ``#`` starts a comment. An unlisted test has to pass; a listed test that passes
is reported, so that the lists shrink. An ``unrun`` line is reported too if its test passes by itself: a whole run tries
the first of the lines with the same WAITS FOR, and the next one if that passes.
"""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

EXPECTED = Path(__file__).parent / "expected"
NOTHING = "nothing"
SEVERAL_BROKERS = "several brokers"
SECURITY = "security"
OUTCOMES = {"fails": "failed", "skips": "skipped", "unrun": "unrun"}


class Outcome(NamedTuple):
    """One test: ``result`` is passed, failed or skipped, ``detail`` its message.

    ``alone``: it passed by itself on a fresh broker after it had failed beside others.
    """

    name: str
    result: str
    detail: str = ""
    seconds: float = 0.0
    alone: bool = False


class Expectation(NamedTuple):
    """One line of a list."""

    pattern: str
    result: str
    waits_for: str
    why: str
    says: str = ""

    def fits(self, name: str) -> bool:
        return fnmatchcase(name, self.pattern)

    def explains(self, outcome: Outcome) -> bool:
        """Return whether the outcome is the listed one, with the listed message."""
        return self.result == outcome.result and self.says in " ".join(outcome.detail.split())


@dataclass
class Verdict:
    """A suite's outcomes by category."""

    passed: list[Outcome] = field(default_factory=list)
    alone: list[Outcome] = field(default_factory=list)
    """Failed beside other tests and passed by itself on a fresh broker."""
    unexpected: list[Outcome] = field(default_factory=list)
    waiting: list[tuple[Outcome, Expectation]] = field(default_factory=list)
    by_itself: list[Outcome] = field(default_factory=list)
    unrun: list[Expectation] = field(default_factory=list)
    obsolete: list[Expectation] = field(default_factory=list)


def expectations(suite: str, brokers: int = 1, secured: bool = False) -> list[Expectation]:
    """Return the expectations for a suite; raise ValueError for a line that is not four columns of known words."""
    there = {SEVERAL_BROKERS: brokers > 1, SECURITY: secured}
    own = [
        EXPECTED / f"{suite}-{name}.txt"
        for name, applies in (("secured", secured), ("cluster", brokers > 1))
        if applies
    ]
    paths = [*(path for path in own if path.exists()), EXPECTED / f"{suite}.txt"]
    return [line for path in paths for line in read_list(path) if not there.get(line.waits_for)]


def read_list(path: Path) -> list[Expectation]:
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        columns = re.split(r" {2,}", line.strip())
        if len(columns) not in (4, 5) or columns[1] not in OUTCOMES:
            raise ValueError(f"{path.name}: not four or five columns: {line!r}")
        pattern, outcome, waits_for, why, *says = columns
        # Names of parametrized tests contain brackets, which are no patterns here.
        found.append(Expectation(re.sub(r"([\[?])", r"[\1]", pattern), OUTCOMES[outcome], waits_for, why, *says))
    return found


def judge(outcomes: Iterable[Outcome], expected: Sequence[Expectation], whole: bool) -> Verdict:
    """Compare outcomes with a list; in a ``whole`` run, lines that match no outcome are obsolete.

    An ``unrun`` line is obsolete if its test was tried and passed.
    """
    outcomes = list(outcomes)
    tried = [line for line in expected if line.result == "unrun" and any(line.fits(one.name) for one in outcomes)]
    gone = [line for line in tried if all(one.result == "passed" for one in outcomes if line.fits(one.name))]
    verdict = Verdict(unrun=[line for line in expected if line.result == "unrun" and line not in gone])
    needed = set()
    for outcome in outcomes:
        line = next((line for line in expected if line.fits(outcome.name)), None)
        if outcome.result == "passed":
            (verdict.alone if outcome.alone else verdict.passed).append(outcome)
        elif line is not None and line in tried:
            continue  # still expected not to run
        elif line is None or not line.explains(outcome):
            verdict.unexpected.append(outcome)
        else:
            needed.add(line)
            if line.waits_for == NOTHING and outcome.result == "skipped":
                verdict.by_itself.append(outcome)
            else:
                verdict.waiting.append((outcome, line))
    if whole:
        verdict.obsolete = gone + [line for line in expected if line.result != "unrun" and line not in needed]
    return verdict


def from_junit(reports: Iterable[Path], name_of: Callable[[ElementTree.Element], str]) -> list[Outcome]:
    """Read the reports of pytest and JUnit."""
    outcomes = []
    for case in (case for report in reports for case in ElementTree.parse(report).iter("testcase")):
        result, detail = "passed", ""
        for child in case:
            if child.tag in ("failure", "error"):
                result = "failed"
            elif child.tag == "skipped":
                result = "skipped"
            else:
                continue
            detail = (child.get("message") or "") + "\n" + (child.text or "")
        outcomes.append(Outcome(name_of(case), result, detail.strip(), float(case.get("time", 0))))
    return outcomes
