"""Find hanging transactions: open in a partition, while their coordinator does not have them (any more).

No coordinator will end them, so read_committed consumers never read past them: abort them with `barnabas txn abort`.
Only transactions without a record for --max-transaction-timeout are looked up at their coordinators. These omit the
transactional ids that the user may not describe, whose transactions are then found too: it takes DESCRIBE on all.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import add_common_options, admin, natural
from barnabas.commands._offsets import duration_ms
from barnabas.commands._output import CommandError, WrongCall, complain_of, show
from barnabas.commands._topics import choose, missing
from barnabas.commands._transactions import (
    MAX_TIMEOUT_MS,
    TRANSACTIONS,
    Open,
    age_text,
    hanging,
    may_hang,
    not_listed,
    open_transactions,
    time_text,
)

if TYPE_CHECKING:
    from kafka import TopicPartition

EXAMPLES = """
  barnabas txn hanging                                every topic
  barnabas txn hanging --topic orders -p 0
  barnabas txn hanging --broker 2 --max-transaction-timeout 1h
"""
COLUMNS = (
    "topic",
    "partition",
    "producer_id",
    "producer_epoch",
    "coordinator_epoch",
    "start",
    "last_record",
    "duration",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--broker", type=natural, metavar="ID", help="only partitions with a replica on this broker")
    parser.add_argument("-t", "--topic", metavar="NAME|^PATTERN", action="append", default=[], help="only this topic")
    parser.add_argument(
        "-p", "--partition", type=natural, action="append", help="only this partition of the one --topic"
    )
    parser.add_argument(
        "--max-transaction-timeout",
        type=duration_ms,
        default=MAX_TIMEOUT_MS,
        metavar="DURATION",
        help=f"the largest transaction timeout of any producer (default: {MAX_TIMEOUT_MS // 60_000}m)",
    )
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the hanging transactions; return 1 if some partitions or coordinators do not answer."""
    if options.partition and len(options.topic) != 1:
        raise WrongCall("--partition needs one --topic")
    with admin(options) as client:
        chosen = choose(client, options.topic)
        away = client.away()
        brokers = client.answering(away)
        if options.broker is not None and options.broker not in brokers:
            raise CommandError(away.get(options.broker) or f"there is no broker {options.broker}")
        partitions, problems = _partitions(chosen, brokers, options)
        transactions, failures = open_transactions(client, partitions, options.broker)
        now_ms = int(time.time() * 1000)
        candidates = [one for one in transactions if may_hang(one, now_ms, options.max_transaction_timeout)]
        if candidates and (unknown := not_listed(choose(client, [TRANSACTIONS]), away)):
            raise CommandError(f"cannot look up {len(candidates)} open transactions: {unknown}")
        found = hanging(client, brokers, candidates)
        problems = [*missing(client, options.topic, chosen), *problems, *failures]
    if partitions or options.json or not problems:
        show(options, COLUMNS, [_row(one, now_ms, options.json) for one in found])
    return complain_of(options.command, problems)


def _partitions(
    topics: list[dict[str, Any]], brokers: list[int], options: argparse.Namespace
) -> tuple[list[TopicPartition], list[str]]:
    """Return the partitions to search, and an error message for each whose leader does not answer."""
    from kafka import TopicPartition

    found, problems = [], []
    for topic in topics:
        wanted = [one for one in topic["partitions"] if _is_wanted(one, options)]
        for partition in sorted(wanted, key=lambda one: int(one["partition_index"])):
            name = TopicPartition(topic["name"], partition["partition_index"])
            if options.broker is None and partition["leader_id"] not in brokers:
                problems.append(f"{name.topic}-{name.partition}: its leader does not answer")
            else:
                found.append(name)
    there = {one.partition for one in found} | {
        one["partition_index"] for topic in topics for one in topic["partitions"]
    }
    if absent := [index for index in options.partition or () if index not in there]:
        problems.append(f"{options.topic[0]}: there is no partition {', '.join(map(str, absent))}")
    return found, problems


def _is_wanted(partition: Mapping[str, Any], options: argparse.Namespace) -> bool:
    if options.partition and partition["partition_index"] not in options.partition:
        return False
    return options.broker is None or options.broker in partition["replica_nodes"]


def _row(one: Open, now_ms: int, is_json: bool) -> dict[str, Any]:
    times = (
        {"last_record_ms": one.last_ms, "duration_ms": now_ms - one.last_ms}
        if is_json
        else {"last_record": time_text(one.last_ms), "duration": age_text(now_ms - one.last_ms)}
    )
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "coordinator_epoch": one.coordinator_epoch,
        "start": one.start,
        **times,
    }
