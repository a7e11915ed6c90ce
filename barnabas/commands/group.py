"""List and describe consumer groups: members, committed offsets and lag."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from barnabas.commands._client import add_bootstrap, admin
from barnabas.commands._output import print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="list|describe")
    commands.add_parser("list", help="list groups with their states")
    describe = commands.add_parser("describe", help="show members, offsets and lag")
    describe.add_argument("group", nargs="+")
    for command in commands.choices.values():
        add_bootstrap(command)


def run(options: argparse.Namespace) -> int:
    """Run the chosen subcommand on one admin connection."""
    with admin(options) as client:
        return _list(client) if options.action == "list" else _describe(client, options.group)


def _list(client: Any) -> int:
    groups = sorted(client.list_groups(), key=lambda group: str(group["group_id"]))
    print_table(
        ("group", "state", "type"),
        ((group["group_id"], group.get("group_state", "-"), group.get("group_type", "-")) for group in groups),
    )
    return 0


def _describe(client: Any, names: list[str]) -> int:
    status = 0
    for name, group in client.describe_groups(names).items():
        if group["group_state"] == "Dead":
            sys.stderr.write(f"barnabas group: there is no group {name}\n")
            status = 1
            continue
        members = group["members"]
        protocol = group["protocol_data"] or "-"
        sys.stdout.write(f"{name}  state={group['group_state']}  protocol={protocol}  members={len(members)}\n")
        _print_offsets(client, name, members)
    return status


def _print_offsets(client: Any, name: str, members: list[dict[str, Any]]) -> None:
    from kafka.admin import OffsetSpec

    owners = {partition: member for member in members for partition in _assigned(member)}
    committed = client.list_group_offsets({name: None})[name]
    partitions = sorted(set(committed) | set(owners))
    ends = client.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST)) if partitions else {}
    rows = []
    for partition in partitions:
        offset = committed[partition].offset if partition in committed else None
        end = ends[partition].offset
        owner = owners.get(partition, {})
        rows.append(
            (
                f"  {partition.topic}",
                partition.partition,
                "-" if offset is None else offset,
                end,
                "-" if offset is None else max(end - offset, 0),
                owner.get("member_id", "-"),
                owner.get("client_host", "-"),
            )
        )
    print_table(("  topic", "partition", "committed", "end", "lag", "member", "host"), rows)


def _assigned(member: dict[str, Any]) -> list[Any]:
    from kafka import TopicPartition

    assignment = member["member_assignment"]
    if not isinstance(assignment, dict):  # a member that has no assignment yet, or not a consumer's
        return []
    return [
        TopicPartition(entry["topic"], partition)
        for entry in assignment["assigned_partitions"]
        for partition in entry["partitions"]
    ]
