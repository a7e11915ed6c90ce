"""Set settings of a topic, broker or group back to their defaults. `--dry-run` shows what they would be."""

from __future__ import annotations

import argparse

from barnabas.commands._client import add_broker_options, admin
from barnabas.commands._configs import DELETE, Change, Setting, alter_configs, describe_configs, resource
from barnabas.commands._output import Report, WrongCall, add_json
from barnabas.commands._settings import did_you_mean

EXAMPLES = """
  barnabas config reset topic/orders retention.ms --dry-run
  barnabas config reset topic/orders retention.ms max.message.bytes
  barnabas config reset topic/orders --all
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("resource", type=resource, metavar="KIND/NAME")
    parser.add_argument("name", nargs="*", metavar="SETTING")
    parser.add_argument("-a", "--all", action="store_true", help="everything that is set for it")
    parser.add_argument("-d", "--dry-run", action="store_true", help="only show what would be reset")
    add_json(parser)
    add_broker_options(parser)


def run(options: argparse.Namespace) -> int:
    """Reset all the settings or, if one cannot be, none."""
    if bool(options.name) == options.all:
        raise WrongCall("name settings, or give --all")
    report = Report(options)
    with admin(options) as client:
        known = {setting.name: setting for setting in describe_configs(client, options.resource)}
        own = [name for name, setting in known.items() if setting.source == options.resource.partition("/")[0]]
        names = own if options.all else list(dict.fromkeys(options.name))
        for name in names:
            if name not in known:
                report.failed(name, f"{options.resource} has no such setting{did_you_mean(name, known)}")
                return report.end()
        failure = names and alter_configs(
            client, options.resource, [Change(name, DELETE) for name in names], options.dry_run
        )
    if failure:
        report.failed(options.resource, failure)
        return report.end()
    for name in names:
        before, after = known[name].value, _default(known[name]) if name in own else known[name].value
        note = f"{before} -> {'the default' if after is None else after}" if name in own else "it was not set"
        report.done("would reset" if options.dry_run else "reset", name, note, before=before, after=after)
    return report.end()


def _default(setting: Setting) -> str | None:
    """Return the value that counts once this one is gone: that of the next place that sets it.

    It may be not told; and it may be of another unit (`retention.ms`: `log.retention.hours`), which is then named.
    """
    if len(setting.synonyms) < 2:
        return None
    following = setting.synonyms[1]
    same = following["name"] == setting.name or following["name"].rpartition(".")[2] == setting.name.rpartition(".")[2]
    return str(following["value"]) if same else f"{following['name']}={following['value']}"
