"""Set or reset settings of topics, or give them more partitions.

`barnabas config list topic/NAME --all` lists the settings that there are.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from barnabas.commands._client import add_broker_options, admin, each_once, pair, positive
from barnabas.commands._configs import DELETE, SET, Change, alter_configs
from barnabas.commands._output import Report, WrongCall, add_json, explain_code

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

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
    with admin(options) as client:
        for name in options.topic:
            failure = _more_partitions(client, name, options)
            if not failure and changes:
                failure = alter_configs(client, f"topic/{name}", changes, options.dry_run)
            if failure:
                report.failed(name, failure)
            else:
                report.done("would alter" if options.dry_run else "altered", name)
    return report.end()


def _more_partitions(client: KafkaAdminClient, topic: str, options: argparse.Namespace) -> str | None:
    """Return what went wrong, if anything."""
    if options.partitions is None:
        return None
    (result,) = client.create_partitions(
        {topic: options.partitions}, raise_errors=False, validate_only=options.dry_run
    ).results
    return explain_code(result.error_code, result.error_message) if result.error_code else None
