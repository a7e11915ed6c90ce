"""Show the metadata quorum: who leads, who votes, and how far each has got."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import add_broker_options, admin
from barnabas.commands._output import CommandError, add_json, print_facts, print_table, show_json
from barnabas.commands._topics import uuid_text

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

EXAMPLES = """
  barnabas cluster quorum
"""
COLUMNS = ("node", "status", "directory", "log_end", "lag", "caught_up")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_json(parser)
    add_broker_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the quorum's leader, and its voters and observers."""
    with admin(options) as client:
        quorum = describe(client)
    if options.json:
        show_json(quorum)
        return 0
    print_facts({name: value for name, value in quorum.items() if not isinstance(value, list)})
    sys.stdout.write("\n")
    print_table(COLUMNS, quorum["nodes"])
    return 0


def describe(client: KafkaAdminClient) -> dict[str, Any]:
    """Return who leads the quorum, and how far each of its nodes has got."""
    partition = client.describe_metadata_quorum()["topics"][0]["partitions"][0]
    if partition["error"]:
        raise CommandError(partition["error"])
    leader = partition["leader_id"]
    end = max((one["log_end_offset"] for one in partition["current_voters"]), default=0)
    now_ms = time.time() * 1000
    rows = [
        {
            "node": one["replica_id"],
            "status": "leader" if one["replica_id"] == leader else status,
            "directory": _directory(one),
            "log_end": one["log_end_offset"],
            "lag": max(end - one["log_end_offset"], 0),
            "caught_up": _ago(one.get("last_caught_up_timestamp", -1), now_ms),
        }
        for status, kind in (("voter", "current_voters"), ("observer", "observers"))
        for one in partition[kind]
    ]
    return {
        "leader": leader,
        "epoch": partition["leader_epoch"],
        "high_watermark": partition["high_watermark"],
        "nodes": rows,
    }


def _directory(node: dict[str, Any]) -> str | None:
    directory = node.get("replica_directory_id")
    return uuid_text(directory) if directory else None


def _ago(timestamp_ms: int, now_ms: float) -> str | None:
    return None if timestamp_ms < 0 else f"{max(now_ms - timestamp_ms, 0) / 1000:.1f} s ago"
