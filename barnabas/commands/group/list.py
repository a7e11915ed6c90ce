"""List consumer groups with their states."""

from __future__ import annotations

import argparse

from barnabas.commands._client import add_broker_options, admin
from barnabas.commands._output import add_json, show

EXAMPLES = """
  barnabas group list
  barnabas group list --state Stable --state PreparingRebalance
  barnabas group list --json | jq -r '.[] | select(.state == "Empty").group'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("-s", "--state", action="append", metavar="STATE", help="only groups in this state")
    add_json(parser)
    add_broker_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the groups."""
    with admin(options) as client:
        groups = client.list_groups()
    wanted = {state.lower() for state in options.state or ()}
    rows = [
        {
            "group": group["group_id"],
            "state": group.get("group_state"),
            "type": group.get("group_type"),
            "protocol_type": group.get("protocol_type"),
        }
        for group in sorted(groups, key=lambda group: str(group["group_id"]))
        if not wanted or str(group.get("group_state")).lower() in wanted
    ]
    show(options, ("group", "state", "type"), rows)
    return 0
