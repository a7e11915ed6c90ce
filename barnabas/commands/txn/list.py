"""List transactional ids with the states of their latest transactions."""

import argparse

from barnabas.commands._client import add_common_options, admin, natural
from barnabas.commands._offsets import duration_ms
from barnabas.commands._output import complain_of, show
from barnabas.commands._topics import choose
from barnabas.commands._transactions import STATES, TRANSACTIONS, list_transactions, not_listed

EXAMPLES = """
  barnabas txn list
  barnabas txn list --state Ongoing --longer-than 15m
  barnabas txn list --pattern 'payments-.*'
  barnabas txn list --json | jq -r '.[].transactional_id'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("-s", "--state", action="append", type=_state, metavar="STATE", help="only ids in this state")
    parser.add_argument(
        "--producer-id", action="append", type=natural, metavar="ID", help="only ids with this producer id"
    )
    parser.add_argument(
        "--longer-than",
        type=duration_ms,
        metavar="DURATION",
        help="only ids whose latest transaction began longer ago, such as 90s or 15m (Kafka 3.8)",
    )
    parser.add_argument(
        "--pattern", metavar="PATTERN", help="only ids that this RE2 pattern matches, from begin to end (Kafka 4.1)"
    )
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the ids; return 1 if a broker does not answer, or ids have no coordinator."""
    with admin(options) as client:
        away = client.away()
        listed = list_transactions(
            client,
            client.answering(away),
            state_filters=options.state,
            producer_id_filters=options.producer_id,
            duration_filter_ms=options.longer_than,
            transactional_id_pattern=options.pattern,
        )
        missing = not_listed(choose(client, [TRANSACTIONS]), away)
    rows = [
        {
            "transactional_id": one.name,
            "coordinator": one.coordinator,
            "producer_id": one.producer_id,
            "state": one.state,
        }
        for one in listed
    ]
    show(options, ("transactional_id", "coordinator", "producer_id", "state"), rows)
    return complain_of(options.command, [*away.values(), *([missing] if missing else [])])


def _state(text: str) -> str:
    """Return the state named by `text` in any case."""
    for state in STATES:
        if state.lower() == text.lower():
            return state
    raise argparse.ArgumentTypeError(f"{text!r}: write one of {', '.join(STATES)}")
