"""Alerts on roll-ups: threshold rules, evaluated on each window once, and what they have fired and resolved. Pure.

A rule watches the windows of one granularity of the metrics and labels that it names:

    rules:
      - name: slow departures
        metric: dep_delay            # a pattern such as *_delay; all metrics by default
        labels: {origin: JFK}        # patterns too; other labels may have any value
        every: 1 hour                # the granularity
        when: mean > 30              # count, sum, min, max or mean; >, >=, <, <=, == or !=
        for: 2                       # so many windows in a row (default: 1)
        severity: page               # this and any other key is copied into the alert

Windows are evaluated in their order, when the event time has passed their end by the lateness; what changes them later
does not change alerts. A window without measurements has the count and sum 0 and no mean, smallest or largest value: a
comparison with one of these is false. An alert fires with the window that completes a breach, and is resolved with the
first window that does not breach: once each, however long the breach lasts. A key that is a misspelling of one of the
first six is refused.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from spark_jobs.errors import JobError, yaml_text

FIRING = "firing"
RESOLVED = "resolved"
AGGREGATES = ("count", "sum", "min", "max", "mean")
COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
CONDITION = re.compile(rf"\s*({'|'.join(AGGREGATES)})\s*({'|'.join(COMPARISONS)})\s*(-?[0-9.]+(?:[eE][-+]?\d+)?)\s*")
KEYS = ("name", "metric", "labels", "every", "when", "for")


@dataclass(frozen=True)
class Totals:
    """The measurements of a window."""

    count: int = 0
    sum: float = 0.0
    min: float | None = None
    max: float | None = None

    @property
    def mean(self) -> float | None:
        """The mean, None without measurements."""
        return self.sum / self.count if self.count else None


NOTHING = Totals()


class RollUp(NamedTuple):
    """A roll-up: its series (metric and labels as one text), granularity, and begin in seconds since 1970."""

    series: str
    name: str
    labels: Mapping[str, str | None]
    granularity: str
    start: int
    totals: Totals


class Condition(NamedTuple):
    """A comparison of an aggregate with a threshold."""

    aggregate: str
    comparison: str
    threshold: float

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Return the condition of a text such as `mean > 30`; ValueError otherwise."""
        found = CONDITION.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r}: write one of {', '.join(AGGREGATES)}, a comparison and a number, as mean > 30")
        return cls(found[1], found[2], float(found[3]))

    def is_breached(self, totals: Totals) -> bool:
        """Return whether the comparison is true."""
        value = getattr(totals, self.aggregate)
        return value is not None and COMPARISONS[self.comparison](value, self.threshold)

    def __str__(self) -> str:
        return f"{self.aggregate} {self.comparison} {self.threshold:g}"


@dataclass(frozen=True)
class Rule:
    """A threshold rule; `length` is that of its granularity in seconds."""

    name: str
    granularity: str
    length: int
    condition: Condition
    windows: int = 1
    metric: str = "*"
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)

    def watches(self, window: RollUp) -> bool:
        """Return whether the rule is about a roll-up."""
        return (
            window.granularity == self.granularity
            and fnmatchcase(window.name, self.metric)
            and all(fnmatchcase(window.labels.get(label) or "", pattern) for label, pattern in self.labels.items())
        )


class Alert(NamedTuple):
    """A change of a rule's state for a series: `start` is the window that changed it, `since` the breach's first."""

    rule: Rule
    state: str
    series: str
    name: str
    labels: Mapping[str, str | None]
    since: int
    start: int
    totals: Totals

    @property
    def key(self) -> str:
        """The key of the alert's record: the same for a rule and a series."""
        return f"{self.rule.name}/{self.series}"

    def value(self) -> str:
        """Return the value of the alert's record, JSON."""
        return json.dumps(
            {
                **self.rule.notes,
                "rule": self.rule.name,
                "state": self.state,
                "metric": self.name,
                "labels": self.labels,
                "when": str(self.rule.condition),
                "every": self.rule.granularity,
                "value": getattr(self.totals, self.rule.condition.aggregate),
                "count": self.totals.count,
                "since": iso(self.since),
                "start": iso(self.start),
                "end": iso(self.start + self.rule.length),
            }
        )


@dataclass
class Watch:
    """A rule's view of a series: the next window to evaluate, those with measurements, and the breach.

    `breaches` counts the last windows that all breached, `since` is the first of them.
    """

    name: str
    labels: Mapping[str, str | None]
    next: int
    pending: dict[int, Totals] = field(default_factory=dict)
    breaches: int = 0
    since: int = 0
    firing: bool = False


class Alerts:
    """The state of all rules, which changes with each batch of roll-ups and is kept as JSON between them."""

    def __init__(self, rules: Iterable[Rule], stored: str | None = None) -> None:
        """Begin without alerts, or with the `stored` ones; those of rules that are no longer there are forgotten."""
        self.rules = tuple(rules)
        self.until: int | None = None
        self._watches: dict[str, dict[str, Watch]] = {rule.name: {} for rule in self.rules}
        if stored is not None:
            found = json.loads(stored)
            self.until = found["until"]
            for rule in self._watches.keys() & found["watches"].keys():
                self._watches[rule] = {series: _watch(one) for series, one in found["watches"][rule].items()}

    def update(self, windows: Iterable[RollUp], until: int) -> list[Alert]:
        """Return the alerts of windows that have ended by `until`; `windows` are the changed ones, ended or not."""
        closed = self.until
        for window in windows:
            for rule in self.rules:
                if rule.watches(window) and (closed is None or window.start + rule.length > closed):
                    self._observe(rule, window)
        self.until = until if closed is None else max(closed, until)
        alerts: list[Alert] = []
        for rule in self.rules:
            watches = self._watches[rule.name]
            for series in sorted(watches):
                alerts += _evaluated(rule, series, watches[series], self.until)
                if _is_idle(rule, watches[series]):
                    del watches[series]
        return sorted(alerts, key=lambda alert: (alert.start, alert.key))

    def stored(self) -> str:
        """Return the state as JSON."""
        watches = {rule: {name: vars(watch) for name, watch in of.items()} for rule, of in self._watches.items()}
        return json.dumps({"until": self.until, "watches": watches}, default=astuple)

    def _observe(self, rule: Rule, window: RollUp) -> None:
        watches = self._watches[rule.name]
        watch = watches.setdefault(window.series, Watch(window.name, dict(window.labels), window.start))
        if not watch.breaches and not watch.firing:
            watch.next = min(watch.next, window.start)
        watch.pending[window.start] = window.totals


def rules_of(text: str, granularities: Mapping[str, int]) -> tuple[Rule, ...]:
    """Return the rules of a YAML document; JobError with the rule and what would be right if one is invalid."""
    import yaml

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise JobError(f"the rules are not YAML: {yaml_text(error)}") from None
    listed = document.get("rules") if isinstance(document, dict) else None
    if not isinstance(listed, list) or not listed:
        raise JobError("the rules have no list `rules`: write rules: with a rule such as {name: slow, when: mean > 30}")
    rules = tuple(_rule(one, number, granularities) for number, one in enumerate(listed, 1))
    names = [rule.name for rule in rules]
    if twice := {name for name in names if names.count(name) > 1}:
        raise JobError(f"two rules have the name {min(twice)!r}: each needs its own")
    return rules


def iso(seconds: int) -> str:
    """Return a time in seconds since 1970 as ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _rule(given: Any, number: int, granularities: Mapping[str, int]) -> Rule:
    def wrong(text: str) -> JobError:
        name = given.get("name", f"number {number}") if isinstance(given, dict) else f"number {number}"
        return JobError(f"rule {name}: {text}")

    if not isinstance(given, dict):
        raise wrong("write a mapping with name and when")
    for key in given:
        if meant := _misspelt(str(key)):
            raise wrong(f"there is no key {key}; did you mean {meant}?")
    for needed in ("name", "when"):
        if not isinstance(given.get(needed), str):
            raise wrong(f"it has no {needed}: write one, as text")
    granularity = given.get("every", next(iter(granularities)))
    if granularity not in granularities:
        raise wrong(f"every: {granularity!r} is none of --granularities: write one of {', '.join(granularities)}")
    windows, labels = given.get("for", 1), given.get("labels", {})
    if not isinstance(windows, int) or windows < 1:
        raise wrong(f"for: {windows!r}: write a number of windows, of at least 1")
    if not isinstance(labels, dict):
        raise wrong(f"labels: {labels!r}: write a mapping of labels to patterns")
    try:
        condition = Condition.parse(given["when"])
    except ValueError as error:
        raise wrong(f"when: {error}") from None
    return Rule(
        given["name"],
        granularity,
        granularities[granularity],
        condition,
        windows,
        str(given.get("metric", "*")),
        {str(label): str(pattern) for label, pattern in labels.items()},
        {key: value for key, value in given.items() if key not in KEYS},
    )


def _misspelt(key: str) -> str | None:
    """Return the key of a rule that `key` is a misspelling of, None if it is such a key or another word."""
    if key in KEYS:
        return None
    # At this cutoff "severity", a frequent key, is not similar to "every".
    if close := get_close_matches(key.lower(), KEYS, n=1, cutoff=0.8):
        return close[0]
    swapped = {key[:at] + key[at : at + 2][::-1] + key[at + 2 :] for at in range(len(key) - 1)}
    return next((known for known in KEYS if known in swapped), None)


def _evaluated(rule: Rule, series: str, watch: Watch, until: int) -> Iterator[Alert]:
    """Evaluate the windows that have ended by `until`; yield the alerts."""

    def alert(state: str, start: int, totals: Totals) -> Alert:
        return Alert(rule, state, series, watch.name, watch.labels, watch.since, start, totals)

    while watch.next + rule.length <= until:
        start = watch.next
        totals = watch.pending.pop(start, NOTHING)
        # Windows without measurements are evaluated together.
        ended = (until - start) // rule.length
        following = min(watch.pending, default=start + ended * rule.length)
        windows = 1 if totals.count else max(1, min(ended, (following - start) // rule.length))
        watch.next += windows * rule.length
        if rule.condition.is_breached(totals):
            if not watch.breaches:
                watch.since = start
            watch.breaches += windows
            if not watch.firing and watch.breaches >= rule.windows:
                watch.firing = True
                yield alert(FIRING, watch.since + (rule.windows - 1) * rule.length, totals)
        else:
            watch.breaches = 0
            if watch.firing:
                watch.firing = False
                yield alert(RESOLVED, start, totals)


def _is_idle(rule: Rule, watch: Watch) -> bool:
    """Return whether a series may be forgotten: only measurements change its state."""
    return not (watch.pending or watch.breaches or watch.firing or rule.condition.is_breached(NOTHING))


def _watch(stored: Mapping[str, Any]) -> Watch:
    pending = {int(start): Totals(*totals) for start, totals in stored["pending"].items()}
    return Watch(**{**stored, "pending": pending})
