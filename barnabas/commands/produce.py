"""Write each line of standard input (or of files) as one record to a topic."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.commands._client import add_bootstrap, client_options, pair
from barnabas.commands._output import CommandError

if TYPE_CHECKING:
    from kafka import KafkaProducer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, named as kcat's users know them."""
    parser.add_argument("topic")
    parser.add_argument("file", nargs="*", help="default: standard input")
    parser.add_argument("-k", "--key", help="the key of every record")
    parser.add_argument("-K", "--key-delimiter", metavar="TEXT", help="a line is KEY TEXT VALUE")
    parser.add_argument("-p", "--partition", type=int, help="default: by key, or spread")
    parser.add_argument("-H", "--header", type=pair, action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("-z", "--compression", choices=CODECS, default="none")
    parser.add_argument("--acks", choices=("0", "1", "all"), default="all")
    add_bootstrap(parser)


def run(options: argparse.Namespace) -> int:
    """Send every line; the status is 1 if any of them was not acknowledged."""
    headers = [(name, value.encode()) for name, value in options.header]
    producer = _producer(options)
    failures: list[BaseException] = []
    try:
        for key, value in _records(options):
            sent = producer.send(options.topic, value, key, headers, options.partition)
            sent.add_errback(failures.append)
        producer.flush()
    except ValueError as error:  # what kafka-python says of a name or a partition that cannot be
        raise CommandError(str(error)) from error
    finally:
        producer.close()
    if failures:
        raise CommandError(f"{len(failures)} records were not acknowledged: {failures[0]}")
    return 0


def _producer(options: argparse.Namespace) -> KafkaProducer:
    from kafka import KafkaProducer
    from kafka.codec import has_snappy, has_zstd

    for codec, present, package in (("snappy", has_snappy, "python-snappy"), ("zstd", has_zstd, "zstandard")):
        if options.compression == codec and not present():
            raise CommandError(f"--compression {codec} needs a library: pip install {package}")
    return KafkaProducer(
        **client_options(options),
        acks=options.acks if options.acks == "all" else int(options.acks),
        enable_idempotence=options.acks == "all",
        compression_type=None if options.compression == "none" else options.compression,
        linger_ms=5,
    )


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
    if not files:
        yield from (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
    for name in files:
        try:
            with open(name, "rb") as stream:
                yield from (line.rstrip(b"\r\n") for line in stream)
        except OSError as error:
            raise CommandError(f"cannot read {name}: {error.strerror}") from error
