"""Delete consumer groups, or only their committed offsets of some topics.

A group with members is not deleted; nor are offsets of a topic that its members read.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._groups import GroupView, committed_offsets, describe, refuse_active, suggested
from barnabas.commands._output import CommandError, Report, amount_of
from barnabas.commands._rights import explain_result

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

EXAMPLES = """
  barnabas group delete readers --dry-run
  barnabas group delete readers writers
  barnabas group delete readers --topic orders        only its offsets of that topic
"""
NEEDS = {"group": "DELETE"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("group", nargs="+", metavar="GROUP")
    parser.add_argument(
        "-t", "--topic", action="append", metavar="TOPIC", help="keep the group; delete its offsets of this topic"
    )
    parser.add_argument("-d", "--dry-run", action="store_true", help="only print what would be deleted")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Delete each group; return 1 if one cannot be deleted."""
    report = Report(options)
    with admin(options) as client:
        for name, group in suggested(client, describe(client, options.group)).items():
            try:
                if isinstance(group, str):
                    raise CommandError(group)
                if options.topic:
                    _delete_offsets(client, group, options, report)
                else:
                    _delete_group(client, group, options, report)
            except CommandError as error:
                why = str(error)
                report.failed(name, f"it{why.removeprefix(name)}" if why.startswith(f"{name} ") else why)
    return report.end()


def _delete_group(client: KafkaAdminClient, group: GroupView, options: argparse.Namespace, report: Report) -> None:
    refuse_active(group)
    if options.dry_run:
        partitions = len(committed_offsets(client, group.name))
        note = f"offsets of {amount_of(partitions, 'partition')}"
        report.done("would delete", group.name, note, partitions=partitions)
        return
    from kafka import errors

    failure = client.delete_groups([group.name])[group.name]
    if failure != "OK":
        kind = getattr(errors, failure, None)  # kafka-python returns the name of the class
        raise CommandError(explain_result(client.config, kind.errno, "DELETE", group.name, "", "") if kind else failure)
    report.done("deleted", group.name)


def _delete_offsets(client: KafkaAdminClient, group: GroupView, options: argparse.Namespace, report: Report) -> None:
    committed = committed_offsets(client, group.name)
    chosen = [partition for partition in committed if partition.topic in options.topic]
    if not chosen:
        raise CommandError(f"nothing is committed for {', '.join(options.topic)}")
    note = f"offsets of {amount_of(len(chosen), 'partition')} of {', '.join(options.topic)}"
    if not options.dry_run:
        for partition, failure in client.delete_group_offsets(group.name, chosen).items():
            if failure.errno:
                why = explain_result(client.config, failure.errno, "DELETE", group.name, "READ", partition.topic)
                raise CommandError(f"{partition.topic}, partition {partition.partition}: {why}")
    report.done("would delete" if options.dry_run else "deleted", group.name, note, partitions=len(chosen))
