"""Advance the clocks of all brokers; every timer that becomes due fires, in the order of the deadlines.

Sessions, rebalances, transactions, retention, compaction, and the expiry of offsets, producers and transactional ids
follow. The cluster stays together, and the clocks of clients are not moved.
"""

from __future__ import annotations

import argparse

from barnabas.commands._controls import add_control_options, call, controls
from barnabas.commands._offsets import duration_ms
from barnabas.commands._output import amount_of

EXAMPLES = """
  barnabas clock advance 25h
  barnabas clock advance 1h30m
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("duration", type=duration_ms, metavar="DURATION", help="such as 90s, 15m or 25h")
    add_control_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit status."""
    brokers = controls(options)
    for broker in brokers:
        call(broker, "POST", "/v1/clock/advance", {"ms": options.duration})
    print(f"advanced {amount_of(len(brokers), 'broker')}")
    return 0
