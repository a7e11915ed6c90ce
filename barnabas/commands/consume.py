r"""Print a topic's records, one per line, until interrupted or until everything requested is printed.

Without --group, partitions are read from --offset on. With it they are shared with the group's other members, and the
offsets of printed records are committed.

Records of transactions are printed once these are committed (isolation.level=read_committed). -X
isolation.level=read_uncommitted prints them at once, also those of open and aborted transactions. With --exit, it ends
before the first open transaction, which it names on standard error.

Ctrl-C or SIGTERM ends it with status 0 if it has no other end: neither --exit, --count nor an --offset with an end.
Otherwise the status is 130 or 143; after SIGHUP, it is always 129.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.commands import HungUp, _format, _offsets, _records
from barnabas.commands._client import add_broker_options, consumer, positive
from barnabas.commands._membership import leave
from barnabas.commands._output import CommandError, WrongCall, complain, some
from barnabas.commands._progress import Progress
from barnabas.commands._reading import GroupReading, RangeReading, Reading
from barnabas.commands._silence import Silence, listening, repeating
from barnabas.commands._unserved import STALLED_S, Unserved, why_held_back, why_pending, why_quiet, why_uncoordinated

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition

GIVE_UP_S = 10.0
"""How long `--exit` waits for records up to the end that cannot be read."""

REBALANCING = "it rebalances until every member has rejoined or the session of a missing one has expired"

EXAMPLES = r"""
  barnabas consume orders                              from the start, and new records
  barnabas consume orders -e                           up to the current end
  barnabas consume orders -o -10 -e                    the last 10 of each partition
  barnabas consume orders -o @-1h:end                  the last hour
  barnabas consume orders -p 0 -o 100:200              offsets 100 to 199 of partition 0
  barnabas consume orders -f '%t %p %o %k %v\n'        in kcat's format (see below)
  barnabas consume orders -g readers                   as a member of a group
  barnabas consume orders -X isolation.level=read_uncommitted
  barnabas consume '^orders-.*' --json -e > records    to be read back by `barnabas produce --json`

offsets:
  start end stored N -N +N     where to begin; -N is before the end, +N after the start
  100:200 :end 100:            from, and up to (exclusive)
  @-1h @2026-01-02 @1767312000 from a time: an age, a date (UTC), seconds or milliseconds since 1970
  @-2d:-1d @2026-01-02:24h     from a time up to another

formats:
  %t topic  %p partition  %o offset  %T timestamp in ms  %h headers
  %k key    %s %v value   %K %S their lengths (-1: null)  %R length of the value, 32 bits  %% percent sign
  \n \r \t \xNN escapes; no line end is added
"""
NEEDS = {"topic": "READ", "group": "READ"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, named as kcat's and rpk's users know them."""
    parser.add_argument("topic", nargs="+", metavar="TOPIC|^PATTERN")
    parser.add_argument(
        "-o",
        "--offset",
        type=_offsets.parse_range,
        action="append",
        metavar="WHERE",
        help="where to begin, and where to end (default: start)",
    )
    parser.add_argument(
        "-p", "--partition", type=_numbers, action="extend", metavar="N[,...]", help="default: every partition"
    )
    parser.add_argument("-g", "-G", "--group", help="share the partitions with this group, and commit")
    parser.add_argument("-n", "-c", "--count", "--num", type=positive, metavar="N", help="stop after N records")
    parser.add_argument("-e", "--exit", action="store_true", help="stop at the current end of the topic")
    how = parser.add_argument_group("output")
    how.add_argument("-f", "--format", metavar="FORMAT", help="format of a record")
    how.add_argument("-J", "--json", action="store_true", help="print one JSON object per line")
    how.add_argument("--meta-only", action="store_true", help="print JSON with the value's size in place of the value")
    escaped = _format.check_escapes
    how.add_argument("-K", "--key-delimiter", type=escaped, metavar="TEXT", help="print KEY TEXT VALUE")
    how.add_argument(
        "-D", "--delimiter", type=escaped, metavar="TEXT", default="\\n", help="TEXT after each record (default: \\n)"
    )
    how.add_argument("-O", "--print-offset", action="store_true", help="print the offset before the key")
    how.add_argument("-Z", "--null", action="store_true", help="print NULL for null keys and values")
    how.add_argument("-u", "--unbuffered", action="store_true", help="flush after each record")
    how.add_argument("-q", "--quiet", action="store_true", help="show no progress, even on a terminal")
    add_broker_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print records until the count, the end, or an interrupt; return the exit status."""
    from kafka.errors import KafkaConnectionError, KafkaTimeoutError

    write = _formatter(options)
    where = _where(options)
    _check_settings(options)
    if options.group:
        _check_group(options, where)
    elif where.first.kind == "committed":
        raise WrongCall("--offset stored requires --group")
    with consumer(options, **_settings(options, where)) as client:
        silence = Silence(options, client, client._cluster)
        try:
            with listening(silence), repeating(partial(silence.check, waits=True)):
                committed = client.config["isolation_level"] == "read_committed"
                return _print_all(_reading(client, where, options), write, options, committed)
        except KeyboardInterrupt as end:
            if options.group:
                leave(client, options)
            if options.exit or options.count or where.stop or isinstance(end, HungUp):
                raise
            return 0  # its only end
        except (KafkaConnectionError, KafkaTimeoutError) as error:
            if why := why_quiet(options, options.topic, options.partition):
                raise CommandError(why) from error
            raise


def _reading(client: KafkaConsumer, where: _offsets.Range, options: argparse.Namespace) -> Reading:
    if options.group:
        return GroupReading(client, options.topic, until_end=options.exit)
    return RangeReading(client, options.topic, options.partition, where, until_end=options.exit)


def _numbers(text: str) -> list[int]:
    """Read numbers parted by commas."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: write numbers, as 0 or 0,1") from error


def _settings(options: argparse.Namespace, where: _offsets.Range) -> dict[str, Any]:
    return {
        "group_id": options.group,
        "auto_offset_reset": "latest" if where.first.kind == "end" else "earliest",
        "enable_auto_commit": bool(options.group),
        "isolation_level": "read_committed",
        "allow_auto_create_topics": False,
        "max_partition_fetch_bytes": 8 * 1024 * 1024,
        "reconnect_backoff_max_ms": 1000,
    }


def _where(options: argparse.Namespace) -> _offsets.Range:
    """Return the range of all `-o` options: kcat gives the start and the end of a time range in two."""
    given: list[_offsets.Range] = options.offset or [_offsets.Range()]
    stops = [one.stop for one in given if one.stop]
    firsts = [one.first for one in given if one.first.kind != "start"]
    if len(stops) > 1 or len(firsts) > 1:
        raise WrongCall("--offset: give one place to begin and one to end")
    return _offsets.Range(firsts[0] if firsts else given[0].first, stops[0] if stops else None)


def _check_settings(options: argparse.Namespace) -> None:
    """Raise WrongCall for settings that this command would ignore."""
    if options.group == "":
        raise WrongCall("--group: the name of a group has at least one character")
    if "" in options.topic:
        raise WrongCall("the name of a topic has at least one character")
    for name, value in options.settings:
        spelled = name.replace("_", ".")
        if spelled == "group.id":
            raise WrongCall(f"-X {name}={value}: write the group as -g {value}")
        if spelled == "auto.offset.reset" and not options.group:
            raise WrongCall(f"-X {name}={value}: it has no effect without --group: use -o start or -o end")


def _check_group(options: argparse.Namespace, where: _offsets.Range) -> None:
    if options.partition is not None:
        raise WrongCall("--group assigns the partitions: leave out --partition")
    if where.stop or where.first.kind not in ("start", "end", "committed"):
        raise WrongCall(
            "--group starts at its committed offsets; --offset start or end applies where there are none "
            "(`barnabas group seek` changes them)"
        )


def _formatter(options: argparse.Namespace) -> _format.Formatter:
    """Return the function that formats a record."""
    if options.format is not None and (options.json or options.meta_only):
        raise WrongCall("--format and JSON: choose one of them")
    if options.json or options.meta_only:
        return lambda record: _records.to_json(record, options.meta_only)
    null = b"NULL" if options.null else b""
    if options.format is None:
        delimiter = options.key_delimiter
        key = "" if delimiter is None else f"%k{_literal(delimiter)}"
        offset = f"%o{_literal(delimiter or ':')}" if options.print_offset else ""
        options.format = f"{offset}{key}%s{_literal(options.delimiter)}"
    try:
        return _format.compile_format(options.format, null)
    except argparse.ArgumentTypeError as error:
        raise WrongCall(f"--format: {error}") from error


def _literal(text: str) -> str:
    return text.replace("%", "%%")


def _print_all(reading: Reading, write: _format.Formatter, options: argparse.Namespace, committed: bool) -> int:
    """Print records until the end; `committed`: the consumer is read_committed. Return the exit status."""
    remaining: int | None = options.count
    out = sys.stdout.buffer
    progress = Progress(reading.expected(options.count), "record", hidden=options.quiet or sys.stdout.isatty())
    began = arrived_at = time.monotonic()
    why: str | None = None
    checked_joining = False
    may_be_held_back = committed
    with progress:
        while remaining != 0 and not reading.done:
            with reading.batch(remaining) as records:
                for record in records:
                    out.write(write(record))
                    if options.unbuffered:
                        out.flush()
                out.flush()
            progress.advance(len(records))
            now = time.monotonic()
            if records or (reading.joining_s and not reading.uncoordinated):
                arrived_at = now
            if reading.joining_s > STALLED_S and not checked_joining and reading.waits_for_others(options):
                complain(options.command, f"waiting for group {options.group}: {REBALANCING}")
            checked_joining = reading.joining_s > STALLED_S
            if why is None and now - (began if reading.unread else arrived_at) > STALLED_S:
                try:
                    if reading.uncoordinated:
                        why = why_uncoordinated(options)
                    else:
                        why = why_quiet(options, options.topic, options.partition) or ""  # query once
                except Unserved as error:
                    if not (options.exit and reading.unread):
                        raise
                    reading.give_up()
                    why = str(error)
                else:
                    if why:
                        complain(options.command, f"{why}; waiting for it")
                    elif committed and options.group and (pending := why_pending(options, reading.unpositioned)):
                        complain(options.command, pending)
                        why = pending
                    elif may_be_held_back and (held := why_held_back(options, options.topic, options.partition)):
                        may_be_held_back = False  # report it once: transactions may be long and many
                        complain(options.command, held)
            if records and not reading.unread:
                why = None
            if why and options.exit and now - arrived_at > GIVE_UP_S and not reading.unread:
                raise CommandError(why)
            if remaining is not None:
                remaining -= len(records)
    if remaining != 0 and reading.unread:
        raise CommandError(_why_unread(reading.unread, options))
    if remaining != 0 and committed and (ends := reading.ended_early()):
        topics, partitions = {one.topic for one in ends}, {one.partition for one in ends}
        if held := why_held_back(options, topics, partitions, ends):
            complain(options.command, f"ended at the last stable offset: {held}")
    return 0


def _why_unread(partitions: Collection[TopicPartition], options: argparse.Namespace) -> str:
    """Return why these partitions were not read."""
    names = some([f"{one.topic}-{one.partition}" for one in sorted(partitions)])
    why = why_quiet(options, {one.topic for one in partitions}, {one.partition for one in partitions})
    return why or f"{names} cannot be read: the leader does not answer"
