"""Set or reset settings of topics, or give them more partitions.

`barnabas config list topic/NAME --all` lists the settings that there are.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from barnabas.commands._client import add_broker_options, admin, each_once, pair, positive
from barnabas.commands._config_changes import Outcome, notes, outcomes
from barnabas.commands._configs import DELETE, SET, Change, alter_configs, known_settings
from barnabas.commands._output import CommandError, Report, WrongCall, add_json, explain_code
from barnabas.commands._unserved import controller_awaited

if TYPE_CHECKING:
    from barnabas.commands._admin import Admin

EXAMPLES = """
  barnabas topic alter orders -c retention.ms=86400000 -c cleanup.policy=delete
  barnabas topic alter orders --reset retention.ms --dry-run
  barnabas topic alter orders --partitions 12
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("topic", nargs="+", metavar="NAME")
    parser.add_argument("-p", "--partitions", type=positive, metavar="N", help="the new total")
    parser.add_argument(
        "-c", "--config", type=pair, action="append", default=[], metavar="NAME=VALUE", help="set a setting"
    )
    parser.add_argument(
        "--reset", action="append", default=[], metavar="NAME", help="set a setting back to its default"
    )
    parser.add_argument("-d", "--dry-run", action="store_true", help="only say whether it could be done")
    add_json(parser)
    add_broker_options(parser)


def run(options: argparse.Namespace) -> int:
    """Alter each topic; the status is 1 if one cannot be altered."""
    if not (options.partitions or options.config or options.reset):
        raise WrongCall("nothing to alter: give --partitions, --config or --reset")
    changes = [Change(name, SET, value) for name, value in each_once(options.config).items()]
    changes += [Change(name, DELETE) for name in options.reset]
    report = Report(options)
    with admin(options) as client, controller_awaited(options):
        for name in options.topic:
            found: list[Outcome] = []
            failure = _more_partitions(client, name, options)
            if not failure and changes:
                try:
                    known = known_settings(client, f"topic/{name}")
                    found = outcomes(client, f"topic/{name}", changes, known)
                    failure = alter_configs(client, f"topic/{name}", changes, known, options.dry_run)
                except CommandError as error:
                    failure = str(error).removeprefix(f"topic/{name}: ")
            if failure:
                report.failed(name, failure)
            else:
                did = "would alter" if options.dry_run else "altered"
                report.done(did, name, notes(found), changes=[one.facts for one in found])
    return report.end()


def _more_partitions(client: Admin, topic: str, options: argparse.Namespace) -> str | None:
    """Return what went wrong, if anything."""
    if options.partitions is None:
        return None
    (result,) = client.create_partitions(
        {topic: options.partitions}, raise_errors=False, validate_only=options.dry_run
    ).results
    return explain_code(result.error_code, result.error_message) if result.error_code else None
