"""Doing a thing again and again (`--watch`), on a terminal always at the top of the screen."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from barnabas.commands._client import seconds
from barnabas.commands._output import CommandError, WrongCall, complain, explain

CLEAR = "\x1b[H\x1b[2J"
TIMESTAMP = "%Y-%m-%d %H:%M:%S\n"


def add_watch(parser: argparse.ArgumentParser, interval_s: float = 2.0) -> None:
    """Add `--watch`."""
    parser.add_argument(
        "-w",
        "--watch",
        type=seconds,
        nargs="?",
        const=interval_s,
        metavar="SECONDS",
        help=f"show it again every so many seconds (default: {interval_s:g}), until interrupted",
    )


def repeat(options: argparse.Namespace, once: Callable[[], int]) -> int:
    """Run `once`, again and again if `--watch` is given; an interrupt is how that ends, and an error is only told."""
    if options.watch is None:
        return once()
    status = 0
    try:
        while True:
            if sys.stdout.isatty():
                sys.stdout.write(CLEAR)
            if not getattr(options, "json", False):
                sys.stdout.write(time.strftime(TIMESTAMP))
            status = _tell_errors(options, once)
            sys.stdout.flush()
            time.sleep(options.watch)
            if not sys.stdout.isatty() and not getattr(options, "json", False):
                sys.stdout.write("\n")
    except KeyboardInterrupt:
        return status


def _tell_errors(options: argparse.Namespace, once: Callable[[], int]) -> int:
    try:
        return once()
    except Exception as error:
        message = str(error) if isinstance(error, CommandError) else explain(error)
        if message is None or isinstance(error, WrongCall):
            raise
        complain(options.command, message)
        return 1
