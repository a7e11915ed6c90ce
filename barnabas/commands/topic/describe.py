"""Show partitions, offsets and settings of topics, and the transactions that read_committed consumers wait for.

A read_committed consumer reads up to the last stable offset: the start of the first open transaction, if there is one.
A transaction that no coordinator lists, and that has had no record for 15 minutes, is shown as hanging: nothing ends it
but `barnabas txn abort`. No state is shown if that cannot be known, such as without DESCRIBE on `__transaction_state`.
Partitions whose leader does not answer have neither offsets nor transactions: they are named, and the status is 1.

RECORDS is END - START. It includes the markers of transactions, one in each partition of a transaction, which
consumers do not receive, and records that compaction has removed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._configs import describe_configs
from barnabas.commands._output import SHOWN, complain_of, print_facts, print_table, show_json, some
from barnabas.commands._partitions import led_by
from barnabas.commands._topics import (
    choose,
    end_offsets,
    last_stable_offsets,
    missing,
    partitions_of,
    start_offsets,
    uuid_text,
)
from barnabas.commands._transactions import HANGING, abort_command, age_text, open_rows

if TYPE_CHECKING:
    from barnabas.commands._admin import Admin

EXAMPLES = """
  barnabas topic describe orders
  barnabas topic describe orders --all          default settings too
  barnabas topic describe '^orders-' --json
"""
COLUMNS = ("partition", "leader", "epoch", "replicas", "in_sync", "start", "end", "records")
TRANSACTIONS = (
    "partition",
    "stable_end",
    "end",
    "producer_id",
    "epoch",
    "start",
    "duration",
    "state",
    "transactional_id",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("topic", nargs="*", metavar="NAME|^PATTERN", help="default: every topic")
    parser.add_argument("-a", "--all", action="store_true", help="show default settings too")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Describe each topic; return 1 if one does not exist, or a leader does not answer."""
    with admin(options) as client:
        chosen = choose(client, options.topic, internal=False)
        there = [topic for topic in chosen if not topic["error_code"]]
        answering = client.answering()
        problems: list[str] = []
        described = [_described(client, topic, answering, options.all, problems) for topic in there]
        unknown = missing(client, options.topic, chosen)
    if options.json:
        show_json(described)
    else:
        for number, topic in enumerate(described):
            sys.stdout.write("\n" if number else "")
            _print(topic)
    return complain_of(options.command, [*unknown, *problems])


def _described(
    client: Admin, topic: dict[str, Any], answering: list[int], everything: bool, problems: list[str]
) -> dict[str, Any]:
    """Return the description of a topic; add an error message to `problems` for each partition that lacks a part."""
    led = [partition for partition in topic["partitions"] if partition["leader_id"] in answering]
    partitions = partitions_of([{**topic, "partitions": led}])
    starts = {partition.partition: offset for partition, offset in start_offsets(client, partitions).items()}
    ends = {partition.partition: offset for partition, offset in end_offsets(client, partitions).items()}
    # After the ends, so that only a transaction can make it the smaller one.
    stable = {partition.partition: offset for partition, offset in last_stable_offsets(client, partitions).items()}
    waiting = [one for one in partitions if stable[one.partition] < ends[one.partition]]
    transactions, failures = open_rows(client, waiting, answering)
    problems += [*failures, *_unanswered(topic, answering)]
    settings = describe_configs(client, f"topic/{topic['name']}")
    return {
        "topic": topic["name"],
        "id": uuid_text(topic["topic_id"]),
        "internal": topic["is_internal"],
        "configs": {one.name: one.value for one in settings if everything or one.is_own},
        "partitions": [
            {
                "partition": (index := partition["partition_index"]),
                "leader": partition["leader_id"],
                "epoch": partition["leader_epoch"],
                "replicas": partition["replica_nodes"],
                "in_sync": partition["isr_nodes"],
                "offline": partition["offline_replicas"],
                "start": starts.get(index),
                "end": ends.get(index),
                "stable_end": min(stable[index], ends[index]) if index in ends else None,
                "records": ends[index] - starts[index] if index in starts else None,
                "transactions": transactions.get((topic["name"], index), []),
            }
            for partition in sorted(topic["partitions"], key=lambda one: int(one["partition_index"]))
        ],
    }


def _unanswered(topic: Mapping[str, Any], answering: Sequence[int]) -> list[str]:
    """Return an error message for the partitions whose leader does not answer; LEADER shows those without one."""
    leaders = {one["leader_id"] for one in topic["partitions"]} - {*answering}
    silent = [name for leader in sorted(leaders) if leader >= 0 for name in led_by([topic], leader)]
    return [f"{some(silent)}: the leader does not answer: offsets and open transactions are unknown"] if silent else []


def _print(topic: dict[str, Any]) -> None:
    print_facts({"topic": topic["topic"], "id": topic["id"], "partitions": len(topic["partitions"])})
    for name, value in topic["configs"].items():
        sys.stdout.write(f"  {name}={'' if value is None else value}\n")
    print_table(COLUMNS, topic["partitions"], wrong=_is_wrong)
    waiting = [one for one in topic["partitions"] if one["end"] is not None and one["stable_end"] < one["end"]]
    if waiting:
        sys.stdout.write("read_committed consumers wait at STABLE-END for:\n")
        rows = [row for partition in waiting for row in _rows(partition)]
        print_table(TRANSACTIONS, rows, wrong=lambda row: row.get("state") == HANGING)
        for line in _notes(topic["topic"], waiting):
            sys.stdout.write(f"{line}\n")


def _rows(partition: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each of the `SHOWN` oldest open transactions; an empty one for none.

    The first of them holds back the last stable offset. There is none while a marker is not replicated yet.
    """
    where = {name: partition[name] for name in ("partition", "stable_end", "end")}
    shown = partition["transactions"][:SHOWN]
    return [{**where, **one, "duration": age_text(one["duration_ms"])} for one in shown] or [where]


def _notes(topic: str, partitions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each partition with more than `SHOWN` open transactions, and for each shown one that hangs."""
    for partition in partitions:
        transactions, index = partition["transactions"], partition["partition"]
        if len(transactions) > SHOWN:
            yield f"partition {index} has {len(transactions)} open transactions; the {SHOWN} oldest are shown"
        for one in transactions[:SHOWN]:
            if one["state"] == HANGING:
                command = abort_command(topic, index, one["start"])
                yield f"no coordinator ends the hanging transaction of producer {one['producer_id']}: {command} does"


def _is_wrong(partition: Mapping[str, Any]) -> bool:
    return partition["leader"] < 0 or len(partition["in_sync"]) < len(partition["replicas"])
