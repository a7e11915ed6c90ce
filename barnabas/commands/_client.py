"""Connections to a broker for the commands: kafka-python clients, made from the common options."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
CONNECT_TIMEOUT_MS = 5_000


def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    """Add `--bootstrap`, whose default is $BARNABAS_BOOTSTRAP or this machine's default broker."""
    parser.add_argument(
        "-b",
        "--bootstrap",
        type=_addresses,
        metavar="HOST:PORT[,...]",
        default=os.environ.get("BARNABAS_BOOTSTRAP", DEFAULT_BOOTSTRAP),
        help="brokers to ask first (default: $BARNABAS_BOOTSTRAP or %(default)s)",
    )


def client_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return kafka-python's options for these commands, and keep its own log out of the user's way."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    return {
        "bootstrap_servers": options.bootstrap,
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


def pair(text: str) -> tuple[str, str]:
    """Read the value of an option that is written as NAME=VALUE."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: write it as NAME=VALUE")
    return name, value


def positive(text: str) -> int:
    """Read the value of an option that is a number of things."""
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def _addresses(text: str) -> list[str]:
    addresses = text.split(",")
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise argparse.ArgumentTypeError(f"{address!r}: write it as HOST:PORT")
    return addresses
