"""List the rules of each broker, with the requests that matched and those that were hit."""

from __future__ import annotations

import argparse
import json

from barnabas.commands._controls import add_control_options, call, controls
from barnabas.commands._output import add_json, show

EXAMPLES = """
  barnabas fault list --json | jq '.[].hits'
"""
_COLUMNS = ("control", "id", "api", "action", "matches", "hits")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_control_options(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit status."""
    rules = [
        {"control": broker.address, **rule}
        for broker in controls(options)
        for rule in call(broker, "GET", "/v1/faults")["faults"]
    ]
    if not options.json:
        rules = [rule | {"action": json.dumps(rule.get("action"))} for rule in rules]
    show(options, _COLUMNS, rules)
    return 0
