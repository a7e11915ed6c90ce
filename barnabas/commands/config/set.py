"""Set settings of a topic, broker or group; add to or remove from lists."""

import argparse

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._config_changes import dynamic_setting, loss_of_state, notes, outcomes
from barnabas.commands._configs import (
    APPEND,
    SET,
    SUBTRACT,
    UNKNOWN_TYPE,
    Change,
    alter_configs,
    closest_setting,
    definition_of,
    known_settings,
    resource,
)
from barnabas.commands._output import CommandError, Report, complain
from barnabas.commands._unserved import controller_awaited

EXAMPLES = """
  barnabas config set topic/orders retention.ms=86400000 max.message.bytes=2097152
  barnabas config set topic/orders cleanup.policy+=compact        add to a list
  barnabas config set topic/orders cleanup.policy-=delete         remove from a list
  barnabas config set brokers log.retention.ms=3600000 --dry-run
  barnabas config set group/readers consumer.session.timeout.ms=50000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("resource", type=resource, metavar="KIND/NAME")
    parser.add_argument("change", nargs="+", type=_change, metavar="SETTING=VALUE")
    parser.add_argument("--force", action="store_true", help="also if an internal topic loses state")
    parser.add_argument("-d", "--dry-run", action="store_true", help="validate only")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Make all of the changes, or none if one is refused."""
    report = Report(options)
    with admin(options) as client, controller_awaited(options):
        try:
            known = known_settings(client, options.resource)
        except CommandError as error:
            report.failed(options.resource, str(error).removeprefix(f"{options.resource}: "))
            return report.end()
        found = outcomes(client, options.resource, options.change, known)
        failure = None if options.force else loss_of_state(options.resource, found)
        failure = failure or alter_configs(client, options.resource, options.change, known, options.dry_run)
    if failure:
        for one in options.change:
            if "dynamically" in failure and (instead := dynamic_setting(one.name)):
                failure += f"; {instead} can be set instead of {one.name}"
        report.failed(options.resource, failure)
        return report.end()
    existing = {name: setting for name, setting in known.items() if setting.type != UNKNOWN_TYPE}
    for name in dict.fromkeys(one.name for one in options.change if definition_of(one.name, existing) is None):
        meant = closest_setting(name, existing)
        complain(options.command, f"{options.resource} has no setting {name}: it has no effect{meant}")
    did = "would alter" if options.dry_run else "altered"
    report.done(did, options.resource, notes(found), changes=[one.facts for one in found])
    return report.end()


def _change(text: str) -> Change:
    name, separator, value = text.partition("=")
    operation = {"+": APPEND, "-": SUBTRACT}.get(name[-1:], SET)
    name = name if operation == SET else name[:-1]
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: write SETTING=VALUE, SETTING+=VALUE or SETTING-=VALUE")
    return Change(name, operation, value)
