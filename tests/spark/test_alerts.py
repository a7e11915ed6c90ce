"""Alert rules: what breaches, fires once and is resolved, and what invalid rules are answered with."""

import json
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.alerts import FIRING, RESOLVED, Alert, Alerts, Condition, RollUp, Rule, Totals, rules_of
from spark_jobs.errors import JobError

MINUTE = 60
GRANULARITIES = {"1 minute": 60, "5 minutes": 300}


def rule(when: str, **changes: object) -> Rule:
    return Rule("slow", "1 minute", MINUTE, Condition.parse(when), **changes)  # type: ignore[arg-type]


def window(minute: int, *values: float, name: str = "ms", labels: Mapping[str, str | None] | None = None) -> RollUp:
    totals = Totals(len(values), sum(values), min(values), max(values))
    labels = labels or {}
    return RollUp("/".join((name, *map(str, labels.values()))), name, labels, "1 minute", MINUTE * minute, totals)


def changes(alerts: list[Alert]) -> list[tuple[str, int]]:
    return [(alert.state, alert.start // MINUTE) for alert in alerts]


def after(watched: Rule, windows: Mapping[int, float], until: int) -> list[tuple[str, int]]:
    """Return the changes of the rule's state by minute."""
    return changes(Alerts([watched]).update([window(at, value) for at, value in windows.items()], MINUTE * until))


def test_an_alert_fires_once_per_breach_and_is_resolved() -> None:
    found = after(rule("mean > 30"), dict(enumerate([10, 31, 99, 40, 30, 50, 5])), 7)
    assert found == [(FIRING, 1), (RESOLVED, 4), (FIRING, 5), (RESOLVED, 6)]


def test_a_breach_fires_when_it_has_lasted_for_the_windows_of_the_rule() -> None:
    found = after(rule("mean > 30", windows=3), dict(enumerate([31, 31, 5, 31, 31, 31, 31, 5])), 8)
    assert found == [(FIRING, 5), (RESOLVED, 7)]


def test_a_window_is_evaluated_when_it_has_ended_and_not_again() -> None:
    alerts = Alerts([rule("max > 30")])
    assert changes(alerts.update([window(0, 50)], 59)) == []
    assert changes(alerts.update([window(0, 50, 10)], 60)) == [(FIRING, 0)]
    assert changes(alerts.update([window(0, 50, 10, 20)], 100)) == []
    assert changes(alerts.update([window(1, 1)], 120)) == [(RESOLVED, 1)]
    assert changes(alerts.update([window(1, 99)], 180)) == []


def test_windows_without_measurements_have_a_count_of_zero_and_no_mean() -> None:
    assert after(rule("mean > 30"), {0: 31.0, 1: 31.0}, 5) == [(FIRING, 0), (RESOLVED, 2)]
    assert after(rule("count < 1", windows=2), {0: 1.0, 5: 1.0, 9: 1.0, 11: 1.0}, 12) == [
        (FIRING, 2),
        (RESOLVED, 5),
        (FIRING, 7),
        (RESOLVED, 9),
    ]


def test_a_long_silence_costs_no_time_and_no_memory() -> None:
    alerts = Alerts([rule("mean > 30"), Rule("dead", "1 minute", MINUTE, Condition.parse("count < 1"))])
    alerts.update([window(0, 1)], 0)
    found = alerts.update([window(10**12, 1)], MINUTE * 10**12)
    assert changes(found) == [(FIRING, 1)]
    assert json.loads(alerts.stored())["watches"]["slow"].keys() == {"ms"}
    alerts.update([], MINUTE * (10**12 + 9))
    assert json.loads(alerts.stored())["watches"]["slow"] == {}


def test_series_have_alerts_of_their_own() -> None:
    jfk, ewr = {"origin": "JFK"}, {"origin": "EWR"}
    windows = [
        window(0, 50, labels=jfk),
        window(0, 50, labels=ewr),
        window(1, 50, labels=ewr),
        window(1, 1, labels=jfk),
    ]
    found = Alerts([rule("mean > 30")]).update(windows, 120)
    assert [(alert.key, alert.state) for alert in found] == [
        ("slow/ms/EWR", FIRING),
        ("slow/ms/JFK", FIRING),
        ("slow/ms/JFK", RESOLVED),
    ]


@pytest.mark.parametrize(
    ("watched", "is_it"),
    [
        (rule("mean > 1"), True),
        (rule("mean > 1", metric="m*"), True),
        (rule("mean > 1", metric="other"), False),
        (rule("mean > 1", labels={"origin": "J*"}), True),
        (rule("mean > 1", labels={"origin": "E*"}), False),
        (rule("mean > 1", labels={"absent": "x"}), False),
        (Rule("slow", "5 minutes", 300, Condition.parse("mean > 1")), False),
    ],
)
def test_a_rule_watches_its_metrics_labels_and_granularity(watched: Rule, is_it: bool) -> None:
    assert watched.watches(window(0, 50, labels={"origin": "JFK"})) is is_it


def test_the_record_of_an_alert_says_what_and_when() -> None:
    [alert] = Alerts([rule("mean > 30", notes={"severity": "page"})]).update([window(1, 50, 70)], 120)
    assert json.loads(alert.value()) == {
        "severity": "page",
        "rule": "slow",
        "state": "firing",
        "metric": "ms",
        "labels": {},
        "when": "mean > 30",
        "every": "1 minute",
        "value": 60.0,
        "count": 2,
        "since": "1970-01-01T00:01:00Z",
        "start": "1970-01-01T00:01:00Z",
        "end": "1970-01-01T00:02:00Z",
    }


measured = st.dictionaries(st.integers(0, 20), st.integers(0, 3).map(float), min_size=1)
conditions = st.sampled_from(["mean > 1", "max >= 2", "count < 1", "count == 1", "sum != 1", "min <= 0"])


@given(measured, conditions, st.integers(1, 3), st.lists(st.integers(0, 25), min_size=1, max_size=5))
def test_alerts_do_not_depend_on_batches_or_restarts(
    values: dict[int, float], when: str, windows: int, ends: list[int]
) -> None:
    """Each minute's value arrives before its window is evaluated; the obvious computation knows all of them."""
    watched = rule(when, windows=windows)
    stored, found, begin = None, [], -1
    ends = sorted({*ends, 25})
    for end in ends:
        alerts = Alerts([watched], stored)
        found += alerts.update([window(at, values[at]) for at in sorted(values) if begin < at <= end], MINUTE * end)
        stored, begin = alerts.stored(), end
    first = min(values)
    streak, expected, firing = 0, [], False
    for minute in range(first, 25):
        totals = window(minute, values[minute]).totals if minute in values else Totals()
        streak = streak + 1 if watched.condition.is_breached(totals) else 0
        if streak >= windows and not firing:
            expected.append((FIRING, minute))
        elif firing and not streak:
            expected.append((RESOLVED, minute))
        firing = streak > 0 and (firing or streak >= windows)
    assert changes(found) == expected
    assert all(one.state != other.state for one, other in pairwise(found))


def test_rules_are_read_from_yaml() -> None:
    text = """
    rules:
      - {name: slow, when: mean > 30}
      - name: silent
        metric: dep_*
        labels: {origin: JFK}
        every: 5 minutes
        when: count<1e0
        for: 2
        severity: page
    """
    slow, silent = rules_of(text, GRANULARITIES)
    assert slow == rule("mean > 30")
    assert silent == Rule(
        *("silent", "5 minutes", 300, Condition("count", "<", 1.0), 2, "dep_*", {"origin": "JFK"}),
        {"severity": "page"},
    )


@pytest.mark.parametrize(
    ("key", "meant"),
    [("evry", "every"), ("lables", "labels"), ("wehn", "when"), ("Metric", "metric"), ("fro", "for"), ("nmae", "name")],
)
def test_misspelt_keys_of_a_rule_are_refused(key: str, meant: str) -> None:
    with pytest.raises(JobError, match=rf"rule a: there is no key {key}; did you mean {meant}\?"):
        rules_of(f"rules: [{{name: a, when: mean > 3, {key}: x}}]", GRANULARITIES)


def test_other_keys_of_a_rule_are_copied_into_its_alerts() -> None:
    notes = dict.fromkeys(("severity", "team", "owner", "runbook", "summary", "page", "event", "service", "where"), "x")
    [made] = rules_of(json.dumps({"rules": [{"name": "a", "when": "mean > 3"} | notes]}), GRANULARITIES)
    assert made.notes == notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules: [", "the rules are not YAML: line 1, column 9: expected the node content, but found '<stream end>'$"),
        ("", "the rules have no list `rules`"),
        ("rules: [5]", "rule number 1: write a mapping with name and when"),
        ("rules: [{when: mean > 3}]", "rule number 1: it has no name"),
        ("rules: [{name: a}]", "rule a: it has no when"),
        ("rules: [{name: a, when: p99 > 3}]", "rule a: when: 'p99 > 3': write one of count, sum"),
        ("rules: [{name: a, when: mean > 3, every: 2 hours}]", "every: '2 hours' is none .* 1 minute, 5 minutes"),
        ("rules: [{name: a, when: mean > 3, for: none}]", "rule a: for: 'none': write a number of windows"),
        ("rules: [{name: a, when: mean > 3, labels: x}]", "rule a: labels: 'x': write a mapping"),
        ("rules: [{name: a, when: mean > 3}, {name: a, when: mean > 4}]", "two rules have the name 'a'"),
    ],
)
def test_invalid_rules_are_named(text: str, message: str) -> None:
    with pytest.raises(JobError, match=message):
        rules_of(text, GRANULARITIES)
