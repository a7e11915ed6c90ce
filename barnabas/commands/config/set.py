"""Set settings of a topic, broker or group; add to those that are lists, or take from them."""

from __future__ import annotations

import argparse

from barnabas.commands._client import add_broker_options, admin
from barnabas.commands._configs import APPEND, SET, SUBTRACT, Change, alter_configs, resource
from barnabas.commands._output import Report, add_json

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
        failure = alter_configs(client, options.resource, options.change, options.dry_run)
    if failure:
        report.failed(options.resource, failure)
    else:
        report.done("would alter" if options.dry_run else "altered", options.resource)
    return report.end()


def _change(text: str) -> Change:
    name, separator, value = text.partition("=")
    operation = {"+": APPEND, "-": SUBTRACT}.get(name[-1:], SET)
    name = name if operation == SET else name[:-1]
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: write SETTING=VALUE, SETTING+=VALUE or SETTING-=VALUE")
    return Change(name, operation, value)
