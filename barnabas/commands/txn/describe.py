"""Show the state, the producer and the partitions of transactions."""

import argparse
import sys
import time
from typing import Any

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import complain_of, print_facts, print_table, show_json
from barnabas.commands._transactions import (
    NO_TIMEOUT_MS,
    OPEN_STATES,
    age_text,
    describe,
    suggested,
    time_text,
    transactional_id,
)

EXAMPLES = """
  barnabas txn describe payments-1
  barnabas txn describe payments-1 payments-2 --json | jq '.[].partitions'
"""
FACTS = ("transactional_id", "coordinator", "state", "producer_id", "producer_epoch", "timeout_ms")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("transactional_id", type=transactional_id, nargs="+", metavar="TRANSACTIONAL-ID")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Describe each transactional id; return 1 if one does not exist."""
    with admin(options) as client:
        found = suggested(client, describe(client, options.transactional_id))
    now_ms = int(time.time() * 1000)
    described = [_described(name, one, now_ms) for name, one in found.items() if not isinstance(one, str)]
    if options.json:
        show_json(described)
    else:
        for number, transaction in enumerate(described):
            sys.stdout.write("\n" if number else "")
            print_transaction(transaction)
    return complain_of(options.command, [f"{name}: {why}" for name, why in found.items() if isinstance(why, str)])


def _described(name: str, transaction: Any, now_ms: int) -> dict[str, Any]:
    started_ms = transaction.transaction_start_time_ms
    state = transaction.state.value
    return {
        "transactional_id": name,
        "coordinator": transaction.coordinator_id,
        "state": state,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "timeout_ms": transaction.transaction_timeout_ms,
        "started_ms": started_ms if started_ms > 0 else None,
        "duration_ms": now_ms - started_ms if started_ms > 0 and state in OPEN_STATES else None,
        "partitions": [
            {"topic": one.topic, "partition": one.partition} for one in sorted(transaction.topic_partitions)
        ],
    }


def print_transaction(transaction: dict[str, Any]) -> None:
    """Print one described transaction."""
    facts = {name: transaction[name] for name in FACTS}
    started_ms = transaction["started_ms"]
    facts["started"] = None if started_ms is None else time_text(started_ms)
    facts["duration"] = age_text(transaction["duration_ms"])
    if facts["timeout_ms"] == NO_TIMEOUT_MS:
        facts["timeout_ms"] = "none (two-phase commit)"
    print_facts({**facts, "partitions": len(transaction["partitions"])})
    if transaction["partitions"]:
        print_table(("topic", "partition"), transaction["partitions"])
