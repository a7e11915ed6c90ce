"""Set settings of a topic, broker or group; add to those that are lists, or take from them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from barnabas.commands._client import add_broker_options, admin
from barnabas.commands._configs import (
    APPEND,
    SET,
    SUBTRACT,
    Change,
    Setting,
    alter_configs,
    describe_configs,
    resource,
)
from barnabas.commands._output import CommandError, Report, add_json, cell

EXAMPLES = """
  barnabas config set topic/orders retention.ms=86400000 max.message.bytes=2097152
  barnabas config set topic/orders cleanup.policy+=compact        one more in a list
  barnabas config set topic/orders cleanup.policy-=delete         one less
  barnabas config set brokers log.retention.ms=3600000 --dry-run
  barnabas config set group/readers consumer.session.timeout.ms=50000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("resource", type=resource, metavar="KIND/NAME")
    parser.add_argument("change", nargs="+", type=_change, metavar="SETTING=VALUE")
    parser.add_argument("-d", "--dry-run", action="store_true", help="only say whether it could be done")
    add_json(parser)
    add_broker_options(parser)


def run(options: argparse.Namespace) -> int:
    """Make all the changes or, if one is refused, none."""
    report = Report(options)
    with admin(options) as client:
        try:
            before = {setting.name: setting for setting in describe_configs(client, options.resource)}
        except CommandError:
            before = {}  # `alter_configs` says what is wrong
        failure = alter_configs(client, options.resource, options.change, options.dry_run)
    if failure:
        report.failed(options.resource, failure)
        return report.end()
    changes = _changes(options.change, before)
    note = ", ".join(f"{name}: {_shown(old)} -> {_shown(new)}" for name, (old, new) in changes.items())
    facts = [{"name": name, "before": old, "after": new} for name, (old, new) in changes.items()]
    report.done("would alter" if options.dry_run else "altered", options.resource, note, changes=facts)
    return report.end()


def _changes(changes: Sequence[Change], known: Mapping[str, Setting]) -> dict[str, tuple[str | None, str | None]]:
    """Return the values of each setting before and after; None where it has none, or is not told."""
    found: dict[str, tuple[str | None, str | None]] = {}
    for change in changes:
        setting = known.get(change.name)
        old = setting.value if setting else None
        value = change.value or ""
        if change.operation != SET:
            items = [item for item in (old or "").split(",") if item]
            given = value.split(",")
            if change.operation == APPEND:
                items += [item for item in given if item not in items]
            else:
                items = [item for item in items if item not in given]
            value = ",".join(items)
        found[change.name] = (old, None if setting and setting.sensitive else value)
    return found


def _shown(value: str | None) -> str:
    return cell(value) if value != "" else '""'


def _change(text: str) -> Change:
    name, separator, value = text.partition("=")
    operation = {"+": APPEND, "-": SUBTRACT}.get(name[-1:], SET)
    name = name if operation == SET else name[:-1]
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: write SETTING=VALUE, SETTING+=VALUE or SETTING-=VALUE")
    return Change(name, operation, value)
