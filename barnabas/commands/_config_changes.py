"""Old and new values of settings that a command changes.

A resource that sets no value has a default: a topic or group that of the brokers, one broker that of `brokers`, then
that of its file, then Kafka's. DescribeConfigs lists these sources as synonyms, unless the default is a setting in
another unit, as `log.retention.hours` for `retention.ms`, here and in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.commands._configs import (
    ALL_BROKERS,
    APPEND,
    DELETE,
    SET,
    Change,
    Setting,
    definition_of,
    describe_a_broker,
    describe_configs,
)
from barnabas.commands._internal_topics import is_internal, needs_force
from barnabas.commands._output import cell

if TYPE_CHECKING:
    from barnabas.commands._admin import Admin

NOT_SET = "it was not set"
UNITS_MS = {"hours": 60 * 60 * 1000, "minutes": 60 * 1000}
OTHER_UNITS = {
    "log.retention.ms": ("log.retention.minutes", "log.retention.hours"),
    "log.roll.ms": ("log.roll.hours",),
    "log.roll.jitter.ms": ("log.roll.jitter.hours",),
    "log.flush.interval.ms": ("log.flush.scheduler.interval.ms",),
}
"""The settings that apply, in this order, if a broker setting has no value."""


def dynamic_setting(name: str) -> str | None:
    """Return the setting in milliseconds that replaces `name`, which has a larger unit; None if there is none."""
    return next(
        (ms for ms, others in OTHER_UNITS.items() if name in others and name.rpartition(".")[2] in UNITS_MS), None
    )


BROKERS_NAMES = {
    "retention.ms": "log.retention.ms",
    "segment.ms": "log.roll.ms",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "flush.ms": "log.flush.interval.ms",
}
"""The broker settings that are the defaults of topic settings."""


class Outcome(NamedTuple):
    """The values of one setting before and after a change; None if there is none or it is sensitive."""

    name: str
    before: str | None
    after: str | None
    to_default: bool
    was_set: bool
    sensitive: bool

    @property
    def note(self) -> str:
        """Return "old -> new", with "(default)" after a reset; "" if the value is unchanged."""
        if self.to_default and not self.was_set:
            return NOT_SET
        if self.sensitive:
            return "not shown, since it is sensitive"
        if self.before == self.after:
            return ""
        return f"{_shown(self.before)} -> {_shown(self.after)}{' (default)' if self.to_default else ''}"

    @property
    def facts(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"name": self.name, "before": self.before, "after": self.after}


def outcomes(client: Admin, of: str, changes: Sequence[Change], known: Mapping[str, Setting]) -> list[Outcome]:
    """Return the effect of each change on a resource with the settings `known`."""
    found: dict[str, Outcome] = {}
    for change in changes:
        setting = known.get(change.name)
        before = _value(client, of, setting) if setting else None
        if change.operation == DELETE:
            after = _default(client, of, setting) if setting else None
        else:
            after = _changed(change, before)
        # Brokers return an unknown setting as sensitive, with an unknown type.
        definition = definition_of(change.name, known)
        sensitive = definition is not None and definition.sensitive
        found[change.name] = Outcome(
            change.name,
            before,
            None if sensitive else after,
            to_default=change.operation == DELETE,
            was_set=setting is not None and is_set(of, setting),
            sensitive=sensitive,
        )
    return list(found.values())


def notes(found: Sequence[Outcome]) -> str:
    """Return the notes of the outcomes in one line."""
    return ", ".join(f"{one.name}: {one.note}" for one in found if one.note)


def loss_of_state(of: str, found: Sequence[Outcome]) -> str | None:
    """Return why these changes of an internal topic need `--force`, as they delete old records; None if not."""
    kind, _, topic = of.partition("/")
    if kind != "topic" or not is_internal(topic):
        return None
    for one in found:
        after = "delete" if one.after is None else one.after
        if one.name == "cleanup.policy" and one.after != one.before and "delete" in after.split(","):
            return needs_force(topic, f"cleanup.policy={after}", "sets")
    return None


def is_set(of: str, setting: Setting) -> bool:
    """Return whether the resource itself sets the value."""
    return setting.source == of.partition("/")[0]


def _value(client: Admin, of: str, setting: Setting) -> str | None:
    """Return the value in effect."""
    of_one_broker = of == ALL_BROKERS and setting.source == "broker"
    if is_set(of, setting) or (setting.value is not None and not of_one_broker):
        return setting.value
    return _default(client, of, setting)


def _default(client: Admin, of: str, setting: Setting) -> str | None:
    """Return the value in effect if the resource sets none."""
    if setting.sensitive:
        return None
    kind = of.partition("/")[0]
    own = ("broker", ALL_BROKERS) if of == ALL_BROKERS else (kind,)
    for synonym in setting.synonyms:
        if synonym["source"] not in own:
            return _in_unit_of(setting.name, synonym["name"], synonym["value"])
    others = OTHER_UNITS.get(BROKERS_NAMES.get(setting.name, setting.name) if kind == "topic" else setting.name, ())
    if not others:
        return None
    settings = describe_configs(client, of, others) if kind == "broker" else describe_a_broker(client, others)
    values = {other.name: other.value for other in settings}
    for name in others:
        if (value := values.get(name)) is not None:
            return _in_unit_of(setting.name, name, value)
    return None


def _in_unit_of(name: str, other: str, value: str | None) -> str | None:
    """Return a value of the setting `other`; converted to ms if it is in hours or minutes and `name` is in ms."""
    unit_ms = UNITS_MS.get(other.rpartition(".")[2])
    if value is None or unit_ms is None or not name.endswith(".ms"):
        return value
    return str(max(int(value) * unit_ms, -1))  # every negative time is "no limit"


def _changed(change: Change, before: str | None) -> str:
    """Return the value after SET, APPEND or SUBTRACT."""
    value = change.value or ""
    if change.operation == SET:
        return value
    items = [item for item in (before or "").split(",") if item]
    given = value.split(",")
    if change.operation == APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items)


def _shown(value: str | None) -> str:
    return cell(value) if value != "" else '""'
