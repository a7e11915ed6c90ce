"""Comparison of outcomes with expectations, and the format of the lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.conformance.__main__ import try_unrun
from tests.clients.conformance.outcomes import (
    EXPECTED,
    Expectation,
    Outcome,
    expectations,
    from_junit,
    judge,
    read_list,
)
from tests.clients.conformance.registry import SUITES
from tests.clients.conformance.suite import Order, Suite

WITHOUT_MESSAGE = {"kafka-it": 17, "kafka-python": 1, "kafka-python-cluster": 1, "librdkafka": 1}
"""Number of lines of each list without the column SAYS; no new line may lack it."""

FAILS = Expectation("waits", "failed", "transactions", "no transactions yet")
SKIPS = Expectation("skips*", "skipped", "nothing", "wants something else")


@pytest.mark.parametrize("secured", [False, True])
@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_list_of_suite_has_reason_for_each_test(suite: Suite, brokers: int, secured: bool) -> None:
    assert all(line.why and line.waits_for for line in expectations(suite.name, brokers, secured))


@pytest.mark.parametrize("name", sorted(path.stem for path in EXPECTED.glob("*.txt")))
def test_listed_failure_has_message_of_the_failed_test(name: str) -> None:
    without = [line for line in read_list(EXPECTED / f"{name}.txt") if line.result == "failed" and not line.says]
    assert len(without) == WITHOUT_MESSAGE.get(name, 0), "add the column SAYS, and keep WITHOUT_MESSAGE small"


def test_runs_on_several_brokers_have_their_own_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "suite.txt").write_text("one  fails  several brokers  moves\nboth  fails  transactions  because\n")
    (tmp_path / "suite-cluster.txt").write_text("several  fails  transactions  because\n")
    (tmp_path / "other.txt").write_text("both  fails  transactions  because\n")
    monkeypatch.setattr("tests.clients.conformance.outcomes.EXPECTED", tmp_path)
    assert [line.pattern for line in expectations("suite")] == ["one", "both"]
    assert [line.pattern for line in expectations("suite", 3)] == ["several", "both"]
    assert [line.pattern for line in expectations("other", 3)] == ["both"]


def test_runs_with_security_have_their_own_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "suite.txt").write_text("auth  skips  security  needs it\nboth  fails  transactions  because\n")
    (tmp_path / "suite-secured.txt").write_text("other  skips  nothing  does without\n")
    (tmp_path / "suite-cluster.txt").write_text(
        "several  fails  transactions  because\nacls  skips  security  needs it\n"
    )
    monkeypatch.setattr("tests.clients.conformance.outcomes.EXPECTED", tmp_path)
    assert [line.pattern for line in expectations("suite")] == ["auth", "both"]
    assert [line.pattern for line in expectations("suite", 3)] == ["several", "acls", "auth", "both"]
    assert [line.pattern for line in expectations("suite", 1, secured=True)] == ["other", "both"]
    assert [line.pattern for line in expectations("suite", 3, secured=True)] == ["other", "several", "both"]


@pytest.mark.parametrize(
    "outcome", [Outcome("other", "failed"), Outcome("other", "skipped"), Outcome("waits", "skipped")]
)
def test_unlisted_outcome_is_unexpected(outcome: Outcome) -> None:
    assert judge([outcome], [FAILS, SKIPS], whole=True).unexpected == [outcome]


def test_listed_outcome_waits_or_skips_by_itself() -> None:
    verdict = judge([Outcome("waits", "failed"), Outcome("skips-a", "skipped")], [FAILS, SKIPS], whole=True)
    assert [line for _, line in verdict.waiting] == [FAILS]
    assert [outcome.name for outcome in verdict.by_itself] == ["skips-a"]
    assert not verdict.unexpected
    assert not verdict.obsolete


def test_listed_test_that_passes_is_obsolete() -> None:
    verdict = judge([Outcome("waits", "passed"), Outcome("skips-a", "skipped")], [FAILS, SKIPS], whole=True)
    assert verdict.obsolete == [FAILS]


def test_partial_run_reports_no_obsolete_lines() -> None:
    assert not judge([Outcome("other", "passed")], [FAILS], whole=False).obsolete


def test_brackets_in_test_name_are_no_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "suite.txt").write_text("# A comment\ntest[a?b]*  fails  transactions  because\n")
    monkeypatch.setattr("tests.clients.conformance.outcomes.EXPECTED", tmp_path)
    (line,) = expectations("suite")
    assert line.fits("test[a?b]-1")
    assert not line.fits("testa")


def test_line_with_too_few_columns_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "suite.txt").write_text("test  fails  because\n")
    monkeypatch.setattr("tests.clients.conformance.outcomes.EXPECTED", tmp_path)
    with pytest.raises(ValueError, match="four or five columns"):
        expectations("suite")


def test_reports_of_junit_are_read(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase name="a" time="0.5"/>'
        '<testcase name="b"><failure message="no">trace</failure></testcase>'
        '<testcase name="c"><skipped message="later"/><system-out>x</system-out></testcase></testsuite></testsuites>'
    )
    found = from_junit([report], lambda case: case.attrib["name"])
    assert found == [
        Outcome("a", "passed", "", 0.5),
        Outcome("b", "failed", "no\ntrace"),
        Outcome("c", "skipped", "later"),
    ]


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("INVALID_TXN_STATE: no such\n  transaction", "waiting"),
        ("connection refused", "unexpected"),
        ("", "unexpected"),
    ],
)
def test_listed_failure_with_another_message_is_unexpected(detail: str, expected: str) -> None:
    line = FAILS._replace(says="no such transaction")
    outcome = Outcome("waits", "failed", detail)
    verdict = judge([outcome], [line], whole=True)
    assert (verdict.unexpected, verdict.waiting) == (
        ([], [(outcome, line)]) if expected == "waiting" else ([outcome], [])
    )


def test_message_is_the_fifth_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "suite.txt").write_text("test  fails  transactions  because  no such transaction\n")
    monkeypatch.setattr("tests.clients.conformance.outcomes.EXPECTED", tmp_path)
    assert [line.says for line in expectations("suite")] == ["no such transaction"]


def test_test_that_passes_only_by_itself_is_counted_separately() -> None:
    outcome = Outcome("other", "passed", alone=True)
    verdict = judge([outcome], [], whole=True)
    assert (verdict.alone, verdict.passed) == ([outcome], [])


def test_unrun_test_that_passes_when_tried_is_obsolete() -> None:
    unrun = Expectation("hangs", "unrun", "transactions", "retries for ever")
    verdict = judge([Outcome("hangs", "passed")], [unrun], whole=True)
    assert (verdict.obsolete, verdict.unrun) == ([unrun], [])


def test_unrun_test_that_was_not_tried_or_did_not_pass_stays_unrun() -> None:
    unrun = Expectation("hangs", "unrun", "transactions", "retries for ever")
    for outcomes in ([], [Outcome("hangs", "failed")]):
        verdict = judge(outcomes, [unrun], whole=True)
        assert (verdict.obsolete, verdict.unrun, verdict.unexpected) == ([], [unrun], [])


def test_next_unrun_test_is_tried_only_if_previous_one_passes(tmp_path: Path) -> None:
    requested: list[str] = []

    def answer(order: Order) -> list[Outcome]:
        (name,) = order.only
        requested.append(name)
        return [Outcome(name, "failed" if name == "b" else "passed")]

    suite = Suite("s", "", lambda: tmp_path, answer, settings=None)
    lines = [Expectation(name, "unrun", "transactions", "why") for name in ("a", "b", "c", "d*")]
    lines.append(Expectation("e", "unrun", "KIP-848", "why"))
    passed = try_unrun(suite, Order("", tmp_path), lines)
    assert [one.name for one in passed] == ["a", "e"]
    assert requested == ["a", "b", "e"]
