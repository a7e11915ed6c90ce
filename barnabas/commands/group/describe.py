"""Show members, offsets and lag of consumer groups, and what open transactions hold back from them.

An offset that was committed in a transaction is pending until the transaction ends; COMMITTED is the one before it.
"""

import argparse
import sys
from typing import Any

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._groups import GroupView, assigned, describe, lag_rows, suggested
from barnabas.commands._held_back import held_back, notes, pending_offsets
from barnabas.commands._output import amount_of, complain_of, print_facts, print_table, show_json
from barnabas.commands._watch import add_watch, repeat

EXAMPLES = """
  barnabas group describe readers
  barnabas group describe readers --watch           every 2 seconds
  barnabas group describe readers --members         members and their assignments
  barnabas group describe readers --json | jq '.[].lag'
"""
NEEDS = {"topic": "DESCRIBE", "group": "DESCRIBE"}
LAG = ("topic", "partition", "committed", "end", "lag", "member", "host")
MEMBERS = ("member", "instance", "client", "host", "partitions", "assigned")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("group", nargs="+", metavar="GROUP")
    parser.add_argument("--members", action="store_true", help="show members in place of offsets")
    add_watch(parser)
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Describe each group; return 1 if one does not exist."""
    with admin(options) as client:
        return repeat(options, lambda: _describe(client, options))


def _describe(client: Any, options: argparse.Namespace) -> int:
    found = suggested(client, describe(client, options.group))
    groups = [_described(client, group) for group in found.values() if isinstance(group, GroupView)]
    if options.json:
        show_json(groups)
    else:
        for number, group in enumerate(groups):
            sys.stdout.write("\n" if number else "")
            _print(group, options.members)
    return complain_of(options.command, [f"{name}: {why}" for name, why in found.items() if isinstance(why, str)])


def _described(client: Any, group: GroupView) -> dict[str, Any]:
    partitions, transactions = _partitions(client, group)
    lags = [row["lag"] for row in partitions if row["lag"] is not None]
    return {
        "group": group.name,
        "state": group.state,
        "protocol": group.protocol,
        "lag": sum(lags) if lags else None,  # None if nothing is committed: the lag is unknown, not 0
        "uncommitted_partitions": sum(row["lag"] is None and not row["deleted"] for row in partitions),
        "members": [
            {
                "member": member["member_id"],
                "instance": member.get("group_instance_id"),
                "client": member["client_id"],
                "host": member["client_host"],
                "partitions": len(assigned(member)),
                "assigned": [f"{partition.topic}-{partition.partition}" for partition in assigned(member)],
            }
            for member in group.members
        ],
        "partitions": partitions,
        "transactions": transactions,
    }


def _partitions(client: Any, group: GroupView) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of the group's partitions, and the names of the transactions that may hold pending offsets."""
    rows = _by_partition(lag_rows(client, group))
    pending, transactions = pending_offsets(client, group.name, rows)
    if set(pending) - rows.keys():
        rows = _by_partition(lag_rows(client, group, pending))
    held = held_back(client, {one: row["end"] for one, row in rows.items() if row["end"] is not None})
    for one, row in rows.items():
        row["pending"] = one in pending
        row["stable_end"], row["holder"] = held.get(one, (row["end"], None))
    return list(rows.values()), transactions


def _by_partition(rows: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    from kafka import TopicPartition

    return {TopicPartition(row["topic"], row["partition"]): row for row in rows}


def _print(group: dict[str, Any], members: bool) -> None:
    facts = {name: group[name] for name in ("group", "state", "protocol", "lag")}
    if group["lag"] is not None and (without := group["uncommitted_partitions"]):
        facts["lag"] = f"{group['lag']} (nothing is committed for {amount_of(without, 'partition')})"
    elif all(row["committed"] is None for row in group["partitions"]):
        facts["lag"] = "- (nothing is committed)"
    print_facts({**facts, "members": len(group["members"])})
    if members:
        print_table(MEMBERS, group["members"])
    elif group["partitions"]:
        print_table(LAG, group["partitions"])
    for line in notes(group):
        sys.stdout.write(f"{line}\n")
