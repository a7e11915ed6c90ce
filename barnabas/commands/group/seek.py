"""Change a consumer group's committed offsets, from which it continues when it is started again.

The group must have no members, or their next commit would overwrite the change. `--dry-run` prints the changes. An
offset beyond the end of its partition is refused; with `--force` the group is set to the end instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._groups import UNKNOWN_GROUP, GroupView, committed_offsets, describe, refuse_active, suggested
from barnabas.commands._offsets import Point, parse_point, resolve
from barnabas.commands._output import CommandError, complain, show, some
from barnabas.commands._rights import explain_result
from barnabas.commands._topics import choose, end_offsets, offsets_at, partitions_of, start_offsets, unknown_topic

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, TopicPartition

    from barnabas.commands._admin import Admin

EXAMPLES = """
  barnabas group seek readers --to start --dry-run
  barnabas group seek readers --to @-1h                     to the first record of the last hour
  barnabas group seek readers --to @2026-01-02T03:04:05Z
  barnabas group seek readers --to -100                     100 records back
  barnabas group seek readers --to end --topics orders,parcels:0
  barnabas group seek readers --to-file offsets             lines of TOPIC PARTITION OFFSET
  barnabas group seek readers --to-group others             the offsets of another group
"""
NEEDS = {"topic": "READ", "group": "READ"}
WRITE = "write start, end, a number N, +N, -N or @TIME, or the name of a file that exists"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, named as rpk's users know them."""
    parser.add_argument("group", metavar="GROUP")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--to",
        type=_target,
        metavar="WHERE",
        help="start, end, @TIME, an offset N, or +N and -N from the committed offset; or the name of a file",
    )
    where.add_argument("--to-file", metavar="FILE", help="lines of TOPIC PARTITION OFFSET")
    where.add_argument("--to-group", metavar="GROUP", help="the committed offsets of this other group")
    parser.add_argument(
        "--topics",
        type=_topics,
        action="extend",
        metavar="TOPIC[:PARTITION],...",
        help="default: all partitions that the group has committed",
    )
    parser.add_argument("--force", action="store_true", help="use the end if the offset is beyond it")
    parser.add_argument("-d", "--dry-run", action="store_true", help="only show what would change")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Commit the new offsets for the group, and print them with the old ones."""
    with admin(options) as client:
        group = suggested(client, describe(client, [options.group]))[options.group]
        if isinstance(group, GroupView):
            refuse_active(group)
        elif not options.topics and not (options.to_file or options.to_group or isinstance(options.to, str)):
            why = group.replace(UNKNOWN_GROUP, f"{UNKNOWN_GROUP}; with --topics, it is created")
            raise CommandError(f"{options.group}: {why}")
        new = not isinstance(group, GroupView)
        before = committed_offsets(client, options.group)
        after = _targets(client, options, before)
        failures = {} if options.dry_run else _commit(client, options.group, after)
        rows = [
            {
                "topic": one.topic,
                "partition": one.partition,
                "before": before.get(one),
                "after": offset,
                **({"error": failures[one]} if one in failures else {}),
            }
            for one, offset in sorted(after.items())
        ]
    if new and not failures:
        complain(options.command, f"{options.group} {'would be' if options.dry_run else 'is'} a new group")
    show(options, ("topic", "partition", "before", "after", *(["error"] if failures else [])), rows)
    return 1 if failures else 0


def _targets(
    client: Admin, options: argparse.Namespace, before: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    path = options.to_file or (options.to if isinstance(options.to, str) else None)
    wanted: dict[TopicPartition, int] = {}
    if path:
        wanted = _read(path)
    elif options.to_group:
        wanted = committed_offsets(client, options.to_group)
        if not wanted:
            found = suggested(client, describe(client, [options.to_group]))[options.to_group]
            raise CommandError(
                f"{options.to_group}: {found}" if isinstance(found, str) else f"{found.name} has no committed offsets"
            )
    chosen = _chosen(client, options.topics, wanted or before)
    if not chosen:
        raise CommandError(f"{options.group} has no committed offsets; give --topics")
    for one in () if options.topics else sorted(wanted.keys() - set(chosen)):
        raise CommandError(f"{one.topic} has no partition {one.partition}")
    starts, ends = start_offsets(client, chosen), end_offsets(client, chosen)
    if not wanted:
        wanted = resolve(partial(offsets_at, client), options.to, starts, ends, before)
    beyond = [one for one in chosen if one in wanted and wanted[one] > ends[one]]
    if beyond and not options.force:
        named = some([f"{one.topic}-{one.partition}: {wanted[one]} is beyond the end, {ends[one]}" for one in beyond])
        raise CommandError(f"{named}; --force commits the end instead")
    return {one: min(max(wanted[one], starts[one]), ends[one]) for one in chosen if one in wanted}


def _chosen(
    client: KafkaAdminClient, topics: list[tuple[str, int | None]] | None, default: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Return the existing partitions of `topics`, or of `default` if None; CommandError for a missing topic."""
    names = [name for name, _ in topics] if topics else sorted({one.topic for one in default})
    described = choose(client, names) if names else []
    missing = [topic["name"] for topic in described if topic["error_code"]]
    if missing:
        raise CommandError("; ".join(f"{name}: {unknown_topic(client, name)}" for name in missing))
    existing = partitions_of(described)
    if not topics:
        named = set(default)
        return [one for one in existing if one in named]
    whole = {name for name, index in topics if index is None}
    chosen = [one for one in existing if one.topic in whole or tuple(one) in topics]
    for name, index in topics:
        if index is not None and not any(tuple(one) == (name, index) for one in existing):
            raise CommandError(f"{name} has no partition {index}")
    return chosen


def _commit(client: KafkaAdminClient, group: str, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, str]:
    """Commit; return what went wrong, partition by partition."""
    from kafka.errors import UnknownMemberIdError
    from kafka.structs import OffsetAndMetadata

    answer = client.alter_group_offsets(
        group, {one: OffsetAndMetadata(offset, "", None) for one, offset in offsets.items()}
    )
    if UnknownMemberIdError in answer.values():
        raise CommandError(f"{group} has become active: stop its consumers first")
    return {
        one: explain_result(client.config, failure.errno, "READ", group, "READ", one.topic)
        for one, failure in answer.items()
        if failure.errno
    }


def _read(path: str) -> dict[TopicPartition, int]:
    """Read lines of TOPIC PARTITION OFFSET; ignore further columns and a table's header."""
    from kafka import TopicPartition

    offsets = {}
    try:
        with open(path, encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                words: list[Any] = line.split()
                if not words or words[0].startswith("#") or words[:2] == ["TOPIC", "PARTITION"]:
                    continue
                if len(words) < 3 or not (words[1].isdecimal() and words[2].isdecimal()):
                    raise CommandError(f"{path}, line {number}: write TOPIC PARTITION OFFSET")
                offsets[TopicPartition(words[0], int(words[1]))] = int(words[2])
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from error
    return offsets


def _target(text: str) -> Point | str:
    """Parse the value of `--to`: + and - are relative to the committed offset; other text is a file's name."""
    import os.path

    try:
        point = parse_point(text, write=WRITE)
    except argparse.ArgumentTypeError:
        if os.path.exists(text):
            return text
        raise
    shift = {"after_start": point.value, "before_end": -point.value}.get(point.kind)
    return point if shift is None else Point("shift", shift)


def _topics(text: str) -> list[tuple[str, int | None]]:
    """Parse comma-separated TOPIC or TOPIC:PARTITION."""
    found: list[tuple[str, int | None]] = []
    for part in text.split(","):
        name, colon, index = part.partition(":")
        if not name or (colon and not index.isdecimal()):
            raise argparse.ArgumentTypeError(f"{part!r}: write TOPIC or TOPIC:PARTITION")
        found.append((name, int(index) if colon else None))
    return found
