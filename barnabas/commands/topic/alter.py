"""Set or reset settings of topics, or add partitions.

`barnabas config list topic/NAME --all` lists the settings.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import add_common_options, admin, each_once, pair, partition_count
from barnabas.commands._config_changes import Outcome, loss_of_state, notes, outcomes
from barnabas.commands._configs import DELETE, SET, Change, alter_configs, known_settings
from barnabas.commands._output import CommandError, Report, WrongCall, amount_of, explain_code
from barnabas.commands._topics import choose, unknown_topic
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
    parser.add_argument("-p", "--partitions", type=partition_count, metavar="N", help="the new number of partitions")
    parser.add_argument(
        "-c", "--config", type=pair, action="append", default=[], metavar="NAME=VALUE", help="set a setting"
    )
    parser.add_argument("--reset", action="append", default=[], metavar="NAME", help="reset a setting to its default")
    parser.add_argument("--force", action="store_true", help="also if an internal topic loses state")
    parser.add_argument("-d", "--dry-run", action="store_true", help="validate only")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Alter each topic completely or not at all; return 1 if one cannot be altered."""
    if not (options.partitions or options.config or options.reset):
        raise WrongCall("nothing to alter: give --partitions, --config or --reset")
    changes = [Change(name, SET, value) for name, value in each_once(options.config).items()]
    changes += [Change(name, DELETE) for name in options.reset]
    report = Report(options)
    with admin(options) as client, controller_awaited(options):
        for name in options.topic:
            try:
                report.done(
                    "would alter" if options.dry_run else "altered", name, **_alter(client, name, changes, options)
                )
            except CommandError as error:
                report.failed(name, str(error).removeprefix(f"topic/{name}: "))
    return report.end()


def _alter(client: Admin, topic: str, changes: Sequence[Change], options: argparse.Namespace) -> dict[str, Any]:
    """Alter a topic unless any part of that is refused; return the note and the facts for the report."""
    of, facts, note = f"topic/{topic}", {}, ""
    if options.partitions is not None:
        before = _add_partitions(client, topic, options.partitions, dry_run=True)
        facts, note = {"partitions": options.partitions}, f"partitions: {before} -> {options.partitions}"
    found: list[Outcome] = []
    if changes:
        known = known_settings(client, of)
        found = outcomes(client, of, changes, known)
        _refuse(None if options.force else loss_of_state(of, found))
        _refuse(alter_configs(client, of, changes, known, options.dry_run or options.partitions is not None))
    if options.partitions is not None and not options.dry_run:
        _add_partitions(client, topic, options.partitions, dry_run=False)
        if changes and (why := alter_configs(client, of, changes, known, dry_run=False)):
            raise CommandError(f"{why}; it has {amount_of(options.partitions, 'partition')} now")
    return {"note": ", ".join(filter(None, (note, notes(found)))), **facts, "changes": [one.facts for one in found]}


def _add_partitions(client: Admin, topic: str, total: int, *, dry_run: bool) -> int:
    """Set a topic's number of partitions; return how many it had."""
    (described,) = choose(client, [topic])
    if described["error_code"]:
        raise CommandError(unknown_topic(client, topic))
    (result,) = client.create_partitions({topic: total}, raise_errors=False, validate_only=dry_run).results
    _refuse(explain_code(result.error_code, result.error_message) if result.error_code else None)
    return len(described["partitions"])


def _refuse(why: str | None) -> None:
    if why:
        raise CommandError(why)
