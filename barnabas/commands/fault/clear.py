"""Remove rules on all brokers, by default all of them; requests that they hold go on."""

from __future__ import annotations

import argparse

from barnabas.commands._controls import call, controls
from barnabas.commands._fault_rules import add_rule_arguments, installed_rules
from barnabas.commands._output import amount_of

EXAMPLES = """
  barnabas fault clear
  barnabas fault clear 2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_rule_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit status."""
    if options.rules:
        removed = len([call(one.broker, "DELETE", one.path) for one in installed_rules(options)])
    else:
        removed = sum(call(broker, "DELETE", "/v1/faults")["deleted"] for broker in controls(options))
    print(f"removed {amount_of(removed, 'rule')}")
    return 0
