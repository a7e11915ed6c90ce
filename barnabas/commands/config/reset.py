"""Reset settings of a topic, broker or group to their defaults. `--dry-run` prints the values that they would get."""

import argparse

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._config_changes import is_set, loss_of_state, outcomes
from barnabas.commands._configs import (
    DELETE,
    Change,
    alter_configs,
    closest_setting,
    definition_of,
    known_settings,
    resource,
)
from barnabas.commands._output import Report, WrongCall
from barnabas.commands._unserved import controller_awaited

EXAMPLES = """
  barnabas config reset topic/orders retention.ms --dry-run
  barnabas config reset topic/orders retention.ms max.message.bytes
  barnabas config reset topic/orders --all
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("resource", type=resource, metavar="KIND/NAME")
    parser.add_argument("name", nargs="*", metavar="SETTING")
    parser.add_argument("-a", "--all", action="store_true", help="all settings that are set for it")
    parser.add_argument("--force", action="store_true", help="also if an internal topic loses state")
    parser.add_argument("-d", "--dry-run", action="store_true", help="only show what would be reset")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Reset all of the settings, or none if one cannot be reset."""
    if bool(options.name) == options.all:
        raise WrongCall("name settings, or give --all")
    report = Report(options)
    with admin(options) as client, controller_awaited(options):
        known = known_settings(client, options.resource)
        own = [name for name, setting in known.items() if is_set(options.resource, setting)]
        names = own if options.all else list(dict.fromkeys(options.name))
        for name in names:
            if name not in known and definition_of(name, known) is None:
                report.failed(name, f"{options.resource} has no such setting{closest_setting(name, known)}")
                return report.end()
        changes = [Change(name, DELETE) for name in names]
        found = outcomes(client, options.resource, changes, known)
        failure = None if options.force else loss_of_state(options.resource, found)
        if changes and not failure:
            failure = alter_configs(client, options.resource, changes, known, options.dry_run)
    if failure:
        report.failed(options.resource, failure)
        return report.end()
    for one in found:
        did = "would reset" if options.dry_run else "reset"
        report.done(did, one.name, one.note, before=one.before, after=one.after)
    return report.end()
