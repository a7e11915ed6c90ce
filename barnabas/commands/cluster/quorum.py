"""Show the metadata quorum: its leader, its voters, and the log end of each node."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import LOOK_MS, add_common_options, admin
from barnabas.commands._configs import describe_configs
from barnabas.commands._output import CommandError, cell, print_facts, print_table, show_json
from barnabas.commands._progress import waiting
from barnabas.commands._topics import uuid_text

if TYPE_CHECKING:
    from barnabas.commands._admin import Admin

EXAMPLES = """
  barnabas cluster quorum
"""
VOTERS = "controller.quorum.voters"
CONTROLLER = "the response of the controller"
SILENT_S = 5.0
"""A voter that has not fetched for so long is down, or cannot reach the leader: voters fetch twice a second."""
COLUMNS = ("node", "status", "directory", "log_end", "lag", "caught_up")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the quorum's leader, voters and observers."""
    with admin(options, request_timeout_ms=LOOK_MS) as client, waiting(options.command, CONTROLLER):
        quorum = describe(client)
    if options.json:
        show_json(quorum)
        return 0
    print_facts({name: value for name, value in quorum.items() if not isinstance(value, list)})
    sys.stdout.write("\n")
    print_table(COLUMNS, [with_age(node) for node in quorum["nodes"]])
    return 0


def describe(client: Admin) -> dict[str, Any]:
    """Return the quorum's leader, and the state of each node; CommandError if no controller answers."""
    from kafka.errors import RequestTimedOutError

    try:
        partition = client.describe_metadata_quorum()["topics"][0]["partitions"][0]
    except RequestTimedOutError as error:
        raise CommandError(_no_majority(client)) from error
    if partition["error"]:
        raise CommandError(partition["error"])
    leader = partition["leader_id"]
    end = max((one["log_end_offset"] for one in partition["current_voters"]), default=0)
    # The time on the leader's clock, as all others: the leader counts as having just fetched from itself.
    leaders_ms = max((one.get("last_fetch_timestamp", -1) for one in partition["current_voters"]), default=-1)
    rows = [
        {
            "node": one["replica_id"],
            "status": "leader" if one["replica_id"] == leader else status,
            "directory": _directory(one),
            "log_end": one["log_end_offset"] if one["log_end_offset"] >= 0 else None,  # -1: unknown to the leader
            "lag": max(end - one["log_end_offset"], 0) if one["log_end_offset"] >= 0 else None,
            "caught_up_timestamp": _known(one.get("last_caught_up_timestamp", -1)),
            "silent_s": _silent_s(one, leaders_ms, is_leader=one["replica_id"] == leader),
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


def is_silent(node: dict[str, Any]) -> bool:
    """Return whether a node from `describe` is a voter that does not fetch from the leader."""
    return node["status"] == "voter" and (node["silent_s"] is None or node["silent_s"] >= SILENT_S)


def silent_voters(quorum: dict[str, Any]) -> list[str]:
    """Return a sentence for each voter in a quorum from `describe` that does not fetch from the leader."""
    return [
        f"controller {node['node']} does not run, or node {quorum['leader']} cannot be reached from it"
        if node["silent_s"] is None
        else f"controller {node['node']} has not fetched for more than {SILENT_S:g} s"
        for node in quorum["nodes"]
        if is_silent(node)
    ]


def _silent_s(node: dict[str, Any], leaders_ms: int, *, is_leader: bool) -> float | None:
    """Return for how long a node has not fetched, None if it never has; 0 for brokers without KIP-836."""
    if is_leader or "last_fetch_timestamp" not in node:
        return 0.0
    fetched_ms = node["last_fetch_timestamp"]
    return None if fetched_ms < 0 else max(leaders_ms - fetched_ms, 0) / 1000


def _no_majority(client: Admin) -> str:
    """Return which nodes must answer, and which do; controllers that are not brokers cannot be probed."""
    answering = client.answering()
    (listed,) = describe_configs(client, f"broker/{answering[0]}", [VOTERS])
    voters = [int(voter.partition("@")[0]) for voter in (listed.value or "").split(",") if voter]
    brokers = [int(broker["broker_id"]) for broker in client.describe_cluster()["brokers"]]
    there = [voter for voter in voters if voter in answering]
    which = (
        f"; {cell(there) if there else 'none'} can be reached"
        if set(voters) <= set(brokers) and 2 * len(there) <= len(voters)
        else ""
    )
    return f"no controller answers: it takes more than half of the nodes {cell(voters)}{which}"


def _directory(node: dict[str, Any]) -> str | None:
    directory = node.get("replica_directory_id")
    return uuid_text(directory) if directory else None


def with_age(node: dict[str, Any]) -> dict[str, Any]:
    """Return a node with the age of its last catch-up as text in place of the timestamp."""
    timestamp_ms = node["caught_up_timestamp"]
    age_s = None if timestamp_ms is None else max(time.time() - timestamp_ms / 1000, 0)
    return {**node, "caught_up": None if age_s is None else f"{age_s:.1f} s ago"}


def _known(timestamp_ms: int) -> int | None:
    return None if timestamp_ms < 0 else timestamp_ms
