"""Delete topics with their records.

This cannot be undone: use `--dry-run` first. Internal topics, which hold the state of groups and
transactions, are deleted with `--force` only.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._internal_topics import held_by, needs_force
from barnabas.commands._output import Report, amount_of, explain_code
from barnabas.commands._topics import (
    NO_MATCH,
    choose,
    end_offsets,
    partitions_of,
    start_offsets,
    unknown_topic,
    unmatched,
)
from barnabas.commands._unserved import controller_awaited

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

EXAMPLES = """
  barnabas topic delete orders
  barnabas topic delete '^orders-' --dry-run          what would be deleted
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("topic", nargs="+", metavar="NAME|^PATTERN")
    parser.add_argument("--if-exists", action="store_true", help="ignore topics that do not exist")
    parser.add_argument("--force", action="store_true", help="delete internal topics too")
    parser.add_argument("-d", "--dry-run", action="store_true", help="only print what would be deleted")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Delete each topic; return 1 if one cannot be deleted."""
    report = Report(options)
    with admin(options) as client, controller_awaited(options):
        chosen = choose(client, options.topic)
        for pattern in () if options.if_exists else unmatched(options.topic, chosen):
            report.failed(pattern, NO_MATCH)
        for topic in chosen:
            if topic["error_code"] and not options.if_exists:
                report.failed(topic["name"], unknown_topic(client, topic["name"]))
        there = [topic for topic in chosen if not topic["error_code"]]
        if not options.force:
            for topic in there:
                if topic["is_internal"]:
                    report.failed(topic["name"], needs_force(topic["name"], "deleting it", "deletes"))
            there = [topic for topic in there if not topic["is_internal"]]
        if options.dry_run:
            for topic in there:
                _would_delete(client, topic, report)
        elif there:
            answer = client.delete_topics([topic["name"] for topic in there], raise_errors=False)
            for topic in answer["topics"]:
                if topic["error_code"]:
                    report.failed(topic["name"], explain_code(topic["error_code"], topic.get("error_message")))
                else:
                    report.done("deleted", topic["name"])
    return report.end()


def _would_delete(client: KafkaAdminClient, topic: dict[str, Any], report: Report) -> None:
    partitions = partitions_of([topic])
    records = sum(end_offsets(client, partitions).values()) - sum(start_offsets(client, partitions).values())
    note = f"{amount_of(len(partitions), 'partition')}, {amount_of(records, 'record')}"
    if topic["is_internal"]:
        note += f", with {held_by(topic['name'])}"
    report.done("would delete", topic["name"], note, partitions=len(partitions), records=records)
