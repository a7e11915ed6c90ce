"""What became of each test of a suite, and whether that was to be expected.

A suite's ``expected/NAME.txt`` lists its tests that do not pass, a line each, in four or five columns:

    NAME      the test, or a pattern of names with ``*``; the first line that fits counts
    OUTCOME   ``fails``, ``skips``, or ``unrun``: the suite is told to leave it out
    WAITS FOR what it needs that is not there yet, ``nothing`` if it does not pass on Apache Kafka 4.3.1 either
    WHY       in words
    SAYS      text that the test's own message contains; a test that fails or skips with another message is not the one
              that is listed. Every new ``fails`` line has one; optional for the other outcomes

What waits for ``several brokers`` waits on a single one only. ``expected/NAME-cluster.txt`` has the lines that count on
several before these, where a suite has any.

Two blanks or more divide the columns; ``#`` begins a comment. Whatever is not listed has to pass, and whatever is
listed and passes is told, so that the lists shrink. An ``unrun`` line is told too where a test that it names passes by
itself: a whole run tries the first of those that wait for the same thing, and the next if that passes.
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
OUTCOMES = {"fails": "failed", "skips": "skipped", "unrun": "unrun"}


class Outcome(NamedTuple):
    """One test: ``result`` is passed, failed or skipped, ``detail`` what it said.

    ``alone``: it has passed by itself on a fresh broker, after it failed beside others.
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
    """A suite's outcomes, sorted by what they mean."""

    passed: list[Outcome] = field(default_factory=list)
    alone: list[Outcome] = field(default_factory=list)
    """What failed beside other tests and passed by itself on a fresh broker."""
    unexpected: list[Outcome] = field(default_factory=list)
    waiting: list[tuple[Outcome, Expectation]] = field(default_factory=list)
    by_itself: list[Outcome] = field(default_factory=list)
    unrun: list[Expectation] = field(default_factory=list)
    obsolete: list[Expectation] = field(default_factory=list)


def expectations(suite: str, brokers: int = 1) -> list[Expectation]:
    """Return what to expect of a suite; ValueError names a line that is not four columns of known words."""
    if brokers == 1:
        return read_list(EXPECTED / f"{suite}.txt")
    own = EXPECTED / f"{suite}-cluster.txt"
    shared = [line for line in read_list(EXPECTED / f"{suite}.txt") if line.waits_for != SEVERAL_BROKERS]
    return (read_list(own) if own.exists() else []) + shared


def read_list(path: Path) -> list[Expectation]:
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        columns = re.split(r" {2,}", line.strip())
        if len(columns) not in (4, 5) or columns[1] not in OUTCOMES:
            raise ValueError(f"{path.name}: not four or five columns: {line!r}")
        pattern, outcome, waits_for, why, *says = columns
        # Names of parametrized tests hold brackets, which are no patterns here.
        found.append(Expectation(re.sub(r"([\[?])", r"[\1]", pattern), OUTCOMES[outcome], waits_for, why, *says))
    return found


def judge(outcomes: Iterable[Outcome], expected: Sequence[Expectation], whole: bool) -> Verdict:
    """Compare outcomes with a list; of a ``whole`` run, lines that no outcome needed are obsolete.

    An ``unrun`` line is obsolete where a test that it names has passed, which it does only if it was tried.
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
            continue  # it is still to be left out
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
    """Read the reports that pytest and JUnit write."""
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
