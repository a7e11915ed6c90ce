"""Let requests go on that rules with --hold hold, the oldest first; the rules hold those that come later."""

from __future__ import annotations

import argparse

from barnabas.commands._controls import call
from barnabas.commands._fault_rules import add_rule_arguments, installed_rules
from barnabas.commands._output import amount_of

EXAMPLES = """
  barnabas fault release
  barnabas fault release 1 --count 1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--count", type=int, metavar="N", help="so many of each rule at each broker; default: all")
    add_rule_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit status."""
    body = {} if options.count is None else {"count": options.count}
    answers = [call(one.broker, "POST", f"{one.path}/release", body) for one in installed_rules(options)]
    print(f"released {amount_of(sum(answer['released'] for answer in answers), 'request')}")
    return 0
