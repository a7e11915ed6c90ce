"""Delete the records of a topic before an offset or a time (Kafka: DeleteRecords).

The partitions then start at that offset; later records keep their offsets. This cannot be undone: use `--dry-run`
first. Internal topics, which hold the state of groups and transactions, are trimmed with `--force` only.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from barnabas.commands._client import add_common_options, admin, number
from barnabas.commands._internal_topics import needs_force
from barnabas.commands._offsets import Point, parse_point, resolve
from barnabas.commands._output import CommandError, WrongCall, plain, show
from barnabas.commands._rights import needs
from barnabas.commands._topics import (
    choose,
    end_offsets,
    is_pattern,
    offsets_at,
    partitions_of,
    start_offsets,
    unknown_topic,
)

if TYPE_CHECKING:
    from kafka import TopicPartition

    from barnabas.commands._admin import Admin

EXAMPLES = """
  barnabas topic trim orders --to 1000 -p 0           records 0 to 999 of partition 0
  barnabas topic trim orders --to @-7d --dry-run      older than a week
  barnabas topic trim orders --to @2026-01-02         older than that day (UTC)
  barnabas topic trim orders --to end                 everything
"""
WRITE = "write start, end, a number N, -N, +N or @TIME"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("topic", metavar="NAME")
    parser.add_argument(
        "-o",
        "--to",
        "--offset",
        dest="to",
        type=_target,
        required=True,
        metavar="N|-N|end|@TIME",
        help="the first record to keep",
    )
    parser.add_argument("-p", "--partition", type=number, action="append", help="default: every partition")
    parser.add_argument("--force", action="store_true", help="trim an internal topic too")
    parser.add_argument("-d", "--dry-run", action="store_true", help="only print what would be deleted")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Trim the requested partitions, and print their new starts."""
    if is_pattern(options.topic):
        raise WrongCall(f"{options.topic} is a pattern: trim takes the name of one topic")
    with admin(options) as client:
        (topic,) = choose(client, [options.topic])
        if topic["error_code"]:
            raise CommandError(f"{options.topic}: {unknown_topic(client, options.topic)}")
        if topic["is_internal"] and not options.force:
            raise CommandError(f"{options.topic}: {needs_force(options.topic, 'trimming it', 'trims')}")
        partitions = partitions_of([topic])
        if options.partition:
            partitions = [partition for partition in partitions if partition.partition in options.partition]
            if len(partitions) < len(set(options.partition)):
                raise CommandError(f"{options.topic} has partitions 0 to {len(topic['partitions']) - 1}")
        starts, ends = start_offsets(client, partitions), end_offsets(client, partitions)
        wanted = resolve(partial(offsets_at, client), options.to, starts, ends)
        for partition, offset in wanted.items():
            if offset > ends[partition]:
                raise CommandError(
                    f"{partition.topic}, partition {partition.partition}: it ends at {ends[partition]}, before {offset}"
                )
        targets = {partition: max(offset, starts[partition]) for partition, offset in wanted.items()}
        if not options.dry_run:
            _delete(client, {p: offset for p, offset in targets.items() if offset > starts[p]})
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "start": starts[partition],
            "new_start": target,
            "end": ends[partition],
            "deleted": target - starts[partition],
        }
        for partition, target in targets.items()
    ]
    show(options, ("topic", "partition", "start", "new_start", "end", "deleted"), rows)
    return 0


def _delete(client: Admin, targets: Mapping[TopicPartition, int]) -> None:
    from kafka.errors import BrokerResponseError, KafkaStorageError, TopicAuthorizationFailedError

    try:
        client.delete_records(targets)
    except BrokerResponseError as error:
        of_one_or_several = f"{type(error).__name__} {error}"
        if TopicAuthorizationFailedError.__name__ in of_one_or_several:
            raise CommandError(needs(client.config, "DELETE", "topic", [next(iter(targets)).topic])) from error
        if KafkaStorageError.__name__ not in of_one_or_several:
            raise
        raise CommandError(
            f"{plain(str(error))}: KAFKA_STORAGE_ERROR: the log directory is full or has failed, so the new start was "
            "not saved: records before it may be back after a crash. Free space there, then trim again"
        ) from error


def _target(text: str) -> Point:
    point = parse_point(text, write=WRITE)
    if point.kind in ("committed", "shift"):
        raise argparse.ArgumentTypeError(f"{text!r}: {WRITE}")
    return point
