"""List consumer groups with their states."""

import argparse

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._groups import OFFSETS, list_groups, not_listed
from barnabas.commands._output import complain_of, show
from barnabas.commands._topics import choose

STATES = (
    "Stable",
    "Empty",
    "Dead",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
)
EXAMPLES = """
  barnabas group list
  barnabas group list --state Stable --state PreparingRebalance
  barnabas group list --json | jq -r '.[] | select(.state == "Empty").group'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "-s", "--state", action="append", type=_state, metavar="STATE", help="only groups in this state"
    )
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the groups; return 1 if a broker does not answer, or groups have no coordinator."""
    with admin(options) as client:
        away = client.away()
        groups = list_groups(client, client.answering(away))
        missing = not_listed(choose(client, [OFFSETS]), away)
    rows = [
        {
            "group": group["group_id"],
            "state": group.get("group_state"),
            "type": group.get("group_type"),
            "protocol_type": group.get("protocol_type"),
        }
        for group in sorted(groups, key=lambda group: str(group["group_id"]))
        if not options.state or group.get("group_state") in options.state
    ]
    show(options, ("group", "state", "type"), rows)
    return complain_of(options.command, [*away.values(), *([missing] if missing else [])])


def _state(text: str) -> str:
    """Return the state named by `text` in any case."""
    for state in STATES:
        if state.lower() == text.lower():
            return state
    raise argparse.ArgumentTypeError(f"{text!r}: write one of {', '.join(STATES)}")
