"""Write each line of standard input (or of files) as one record to a topic."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from barnabas.commands._client import add_bootstrap, client_options, parse_pairs
from barnabas.commands._output import CommandError

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, named as kcat's users know them."""
    parser.add_argument("topic")
    parser.add_argument("file", nargs="*", help="default: standard input")
    parser.add_argument("-k", "--key", help="the key of every record")
    parser.add_argument("-K", "--key-delimiter", metavar="TEXT", help="a line is KEY TEXT VALUE")
    parser.add_argument("-p", "--partition", type=int, help="default: by key, or spread")
    parser.add_argument("-H", "--header", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("-z", "--compression", choices=CODECS, default="none")
    parser.add_argument("--acks", choices=("0", "1", "all"), default="all")
    add_bootstrap(parser)


def run(options: argparse.Namespace) -> int:
    """Send every line; the status is 1 if any of them was not acknowledged."""
    from kafka import KafkaProducer

    headers = [(name, value.encode()) for name, value in parse_pairs(options.header, option="--header").items()]
    producer = KafkaProducer(
        **client_options(options),
        acks=options.acks if options.acks == "all" else int(options.acks),
        enable_idempotence=options.acks == "all",
        compression_type=None if options.compression == "none" else options.compression,
        linger_ms=5,
    )
    failures: list[BaseException] = []
    try:
        for key, value in _records(options):
            sent = producer.send(options.topic, value, key, headers, options.partition)
            sent.add_errback(failures.append)
        producer.flush()
    finally:
        producer.close()
    if failures:
        raise CommandError(f"{len(failures)} records were not acknowledged: {failures[0]}")
    return 0


def _records(options: argparse.Namespace) -> Iterator[tuple[bytes | None, bytes]]:
    key = None if options.key is None else options.key.encode()
    delimiter = options.key_delimiter.encode() if options.key_delimiter else None
    for number, line in enumerate(_lines(options.file), 1):
        if delimiter is None:
            yield key, line
            continue
        own_key, found, value = line.partition(delimiter)
        if not found:
            raise CommandError(f"line {number} has no key delimiter {options.key_delimiter!r}")
        yield own_key, value


def _lines(files: list[str]) -> Iterator[bytes]:
    streams: Iterator[Any] = iter([sys.stdin.buffer]) if not files else (open(name, "rb") for name in files)
    for stream in streams:
        with stream:
            for line in stream:
                yield line.rstrip(b"\r\n")
