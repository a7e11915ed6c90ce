"""Remove all rules on all brokers; requests that they hold go on."""

from __future__ import annotations

import argparse

from barnabas.commands._controls import add_control_options, call, controls
from barnabas.commands._output import amount_of

EXAMPLES = """
  barnabas fault clear
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_control_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit status."""
    removed = sum(call(broker, "DELETE", "/v1/faults")["deleted"] for broker in controls(options))
    print(f"removed {amount_of(removed, 'rule')}")
    return 0
