"""Options of the commands that start a cluster, `up` and `run`: how many brokers, their settings, and topics."""

import argparse
import re

from barnabas._cluster_settings import OURS
from barnabas.commands._client import positive
from barnabas.commands.topic.create import new_topic

MOST_BROKERS = 64  # all of them are started at the same time


def add_cluster_options(parser: argparse.ArgumentParser, brokers: int) -> None:
    """Declare --brokers, --topic and -D; `brokers` is the default number."""
    parser.add_argument(
        "--brokers", type=_brokers, default=brokers, metavar="N", help="number of brokers (default: %(default)s)"
    )
    parser.add_argument(
        "--topic",
        type=_topic,
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS]",
        help="create a topic unless it exists",
    )
    parser.add_argument(
        "-D",
        dest="define",
        type=_setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one setting, for all brokers",
    )


def _brokers(text: str) -> int:
    number = positive(text)
    if number > MOST_BROKERS:
        raise argparse.ArgumentTypeError(f"{number} brokers are too many: {MOST_BROKERS} at most")
    return number


def _topic(text: str) -> tuple[str, int | None]:
    name, partitions = new_topic(text)
    if name in (".", "..") or not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name):
        raise argparse.ArgumentTypeError(
            f"{name!r} is not a valid topic name: 1 to 249 characters of a-z, A-Z, 0-9, ., _ and -"
        )
    return name, partitions


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r}: write it as KEY=VALUE")
    if key in OURS:
        raise argparse.ArgumentTypeError(f"{key} differs between brokers and cannot be set for all")
    return key, value.strip()
