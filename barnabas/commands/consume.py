"""Print a topic's records, one a line, until interrupted or until what was asked for is there."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from barnabas.commands._client import add_bootstrap, client_options, positive
from barnabas.commands._output import CommandError, WrongCall

POLL_MS = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, named as kcat's users know them."""
    parser.add_argument("topic", nargs="+")
    parser.add_argument(
        "-o", "--offset", type=_offset, default="start", metavar="start|end|N", help="where to begin (default: start)"
    )
    parser.add_argument("-p", "--partition", type=int, help="default: every partition")
    parser.add_argument("-g", "--group", help="share the partitions with this group, and commit")
    parser.add_argument("-n", "--count", type=positive, help="stop after so many records")
    parser.add_argument("-e", "--exit", action="store_true", help="stop at the end that the topic has now")
    parser.add_argument("-K", "--key-delimiter", metavar="TEXT", help="print KEY TEXT VALUE")
    add_bootstrap(parser)


def run(options: argparse.Namespace) -> int:
    """Print records until the count, the end, or an interrupt."""
    from kafka import KafkaConsumer

    if options.group and (options.partition is not None or options.exit):
        raise WrongCall("--group chooses its partitions itself: leave out --partition and --exit")
    consumer = KafkaConsumer(
        **client_options(options),
        group_id=options.group,
        auto_offset_reset="latest" if options.offset == "end" else "earliest",
        enable_auto_commit=bool(options.group),
    )
    try:
        if options.group:
            consumer.subscribe(options.topic)
        else:
            _assign(consumer, options)
        return _print_all(consumer, options)
    finally:
        consumer.close()


def _offset(text: str) -> str | int:
    if text in ("start", "end"):
        return text
    if text.isascii() and text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is neither start, end nor a number")


def _assign(consumer: Any, options: argparse.Namespace) -> None:
    from kafka import TopicPartition

    assigned = []
    for topic in options.topic:
        partitions = consumer.partitions_for_topic(topic)
        if not partitions:
            raise CommandError(f"there is no topic {topic}")
        if options.partition is not None and options.partition not in partitions:
            raise CommandError(f"{topic} has partitions 0 to {max(partitions)}, no {options.partition}")
        wanted = sorted(partitions) if options.partition is None else [options.partition]
        assigned += [TopicPartition(topic, partition) for partition in wanted]
    consumer.assign(assigned)
    if options.offset == "start":
        consumer.seek_to_beginning(*assigned)
    elif options.offset == "end":
        consumer.seek_to_end(*assigned)
    else:
        for partition in assigned:
            consumer.seek(partition, options.offset)


def _print_all(consumer: Any, options: argparse.Namespace) -> int:
    remaining = options.count
    ends = consumer.end_offsets(list(consumer.assignment())) if options.exit else {}
    out = sys.stdout.buffer
    while remaining != 0:
        if options.exit and all(consumer.position(partition) >= end for partition, end in ends.items()):
            break
        polled = consumer.poll(timeout_ms=POLL_MS, max_records=remaining)
        for record in (record for records in polled.values() for record in records):
            if options.key_delimiter is not None:
                out.write((record.key or b"") + options.key_delimiter.encode())
            out.write((record.value or b"") + b"\n")
            if remaining is not None:
                remaining -= 1
        out.flush()
    return 0
