"""Connections to a broker for the commands: kafka-python clients, made from the common options."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from barnabas.commands._output import CommandError

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
CONNECT_TIMEOUT_MS = 5_000


def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    """Add `--bootstrap`, whose default is $BARNABAS_BOOTSTRAP or this machine's default broker."""
    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT[,...]",
        default=os.environ.get("BARNABAS_BOOTSTRAP", DEFAULT_BOOTSTRAP),
        help="brokers to ask first (default: $BARNABAS_BOOTSTRAP or %(default)s)",
    )


def client_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return kafka-python's options for these commands, and keep its own log out of the user's way."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    return {
        "bootstrap_servers": options.bootstrap.split(","),
        "client_id": "barnabas-cli",
        "bootstrap_timeout_ms": CONNECT_TIMEOUT_MS,
    }


@contextmanager
def admin(options: argparse.Namespace) -> Iterator[KafkaAdminClient]:
    """Connect an admin client for the length of a `with` block."""
    from kafka import KafkaAdminClient

    client = KafkaAdminClient(**client_options(options))
    try:
        yield client
    finally:
        client.close()


def parse_pairs(pairs: list[str], *, option: str) -> dict[str, str]:
    """Turn `["name=value", ...]` into a dict; CommandError names the pair that has no `=`."""
    parsed = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise CommandError(f"{option} {pair!r}: write it as NAME=VALUE")
        parsed[name] = value
    return parsed
