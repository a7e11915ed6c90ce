"""Show partitions, offsets and settings of topics."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._configs import describe_configs
from barnabas.commands._output import complain_of, print_facts, print_table, show_json
from barnabas.commands._topics import (
    choose,
    end_offsets,
    missing,
    partitions_of,
    start_offsets,
    uuid_text,
)

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

EXAMPLES = """
  barnabas topic describe orders
  barnabas topic describe orders --all          default settings too
  barnabas topic describe '^orders-' --json
"""
COLUMNS = ("partition", "leader", "epoch", "replicas", "in_sync", "start", "end", "records")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("topic", nargs="*", metavar="NAME|^PATTERN", help="default: every topic")
    parser.add_argument("-a", "--all", action="store_true", help="show default settings too")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Describe each topic; return 1 if one does not exist."""
    with admin(options) as client:
        chosen = choose(client, options.topic, internal=False)
        there = [topic for topic in chosen if not topic["error_code"]]
        answering = client.answering()
        described = [_described(client, topic, answering, options.all) for topic in there]
    if options.json:
        show_json(described)
    else:
        for number, topic in enumerate(described):
            sys.stdout.write("\n" if number else "")
            _print(topic)
    return complain_of(options.command, missing(options.topic, chosen))


def _described(
    client: KafkaAdminClient, topic: dict[str, Any], answering: list[int], everything: bool
) -> dict[str, Any]:
    led = [partition for partition in topic["partitions"] if partition["leader_id"] in answering]
    partitions = partitions_of([{**topic, "partitions": led}])
    starts = {partition.partition: offset for partition, offset in start_offsets(client, partitions).items()}
    ends = {partition.partition: offset for partition, offset in end_offsets(client, partitions).items()}
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
                "records": ends[index] - starts[index] if index in starts else None,
            }
            for partition in sorted(topic["partitions"], key=lambda one: int(one["partition_index"]))
        ],
    }


def _print(topic: dict[str, Any]) -> None:
    print_facts({"topic": topic["topic"], "id": topic["id"], "partitions": len(topic["partitions"])})
    for name, value in topic["configs"].items():
        sys.stdout.write(f"  {name}={'' if value is None else value}\n")
    print_table(COLUMNS, topic["partitions"], wrong=_is_wrong)


def _is_wrong(partition: Mapping[str, Any]) -> bool:
    return partition["leader"] < 0 or len(partition["in_sync"]) < len(partition["replicas"])
