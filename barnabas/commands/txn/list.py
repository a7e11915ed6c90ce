"""List transactional ids with the states of their latest transactions.

The states:

  Empty              the producer has begun no transaction yet, or was fenced
  Ongoing            the transaction is open
  PrepareCommit      the commit is decided; its markers are being written
  PrepareAbort       the abort is decided; its markers are being written
  CompleteCommit     the transaction was committed; all markers are written
  CompleteAbort      the transaction was aborted; all markers are written
  PrepareEpochFence  the producer is being fenced, its abort follows; only in Apache Kafka's coordinators

DURATION is that of an open transaction.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import add_common_options, admin, natural
from barnabas.commands._offsets import duration_ms
from barnabas.commands._output import WrongCall, complain_of, show
from barnabas.commands._topics import choose
from barnabas.commands._transactions import (
    NO_TIMEOUT_MS,
    OPEN_STATES,
    STATES,
    TRANSACTIONS,
    Listed,
    age_text,
    describe,
    list_transactions,
    not_listed,
)

if TYPE_CHECKING:
    from kafka.admin import TransactionDescription

EXAMPLES = """
  barnabas txn list
  barnabas txn list --state Ongoing --longer-than 15m
  barnabas txn list --pattern 'payments-.*'
  barnabas txn list --two-phase
  barnabas txn list --json | jq -r '.[].transactional_id'
"""
COLUMNS = ("transactional_id", "coordinator", "producer_id", "state", "duration")
OPEN = "Ongoing"


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
        help="only ids whose transaction is open for longer, such as 90s or 15m; with --state, ids in these states "
        "whose latest transaction began longer ago (Kafka 3.8)",
    )
    parser.add_argument(
        "--pattern", metavar="PATTERN", help="only ids that this RE2 pattern matches, from begin to end (Kafka 4.1)"
    )
    parser.add_argument(
        "--two-phase",
        action="store_true",
        help="only open transactions without a timeout: those of two-phase commit, which may be prepared",
    )
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the ids; return 1 if a broker does not answer, or ids have no coordinator."""
    if options.two_phase:
        if options.state not in (None, [OPEN]):
            raise WrongCall(f"--two-phase lists transactions in state {OPEN} only")
        options.state = [OPEN]
    elif options.longer_than is not None and not options.state:
        options.state = list(OPEN_STATES)  # brokers filter by the start of the latest transaction, ended or not
    problems = []
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
        described = describe(client, [one.name for one in listed if options.two_phase or one.state in OPEN_STATES])
    if options.two_phase:
        problems = [f"{name}: {found}" for name, found in described.items() if isinstance(found, str)]
        listed = [one for one in listed if _has_no_timeout(described[one.name])]
    now_ms = int(time.time() * 1000)
    rows = [_row(one, described.get(one.name), now_ms, options.json) for one in listed]
    show(options, COLUMNS, rows)
    return complain_of(options.command, [*away.values(), *([missing] if missing else []), *problems])


def _row(one: Listed, found: TransactionDescription | str | None, now_ms: int, is_json: bool) -> dict[str, Any]:
    """Return the row of an id; with a duration if its transaction is open, and was `found` at its coordinator."""
    duration_ms = None
    if found is not None and not isinstance(found, str) and found.transaction_start_time_ms > 0:
        duration_ms = now_ms - found.transaction_start_time_ms
    return {
        "transactional_id": one.name,
        "coordinator": one.coordinator,
        "producer_id": one.producer_id,
        "state": one.state,
        **({"duration_ms": duration_ms} if is_json else {"duration": age_text(duration_ms)}),
    }


def _has_no_timeout(transaction: TransactionDescription | str) -> bool:
    return not isinstance(transaction, str) and transaction.transaction_timeout_ms == NO_TIMEOUT_MS


def _state(text: str) -> str:
    """Return the state named by `text` in any case."""
    for state in STATES:
        if state.lower() == text.lower():
            return state
    raise argparse.ArgumentTypeError(f"{text!r}: write one of {', '.join(STATES)}; --help explains them")
