"""Repeating a command's output (`--watch`), on a terminal always at the top of the screen."""

import argparse
import errno
import os
import select
import stat
import sys
import time
from collections.abc import Callable

from barnabas.commands import HungUp
from barnabas.commands._client import seconds
from barnabas.commands._output import CommandError, RefusedConnection, WrongCall, complain, explain

CLEAR = "\x1b[H\x1b[2J"
STANDARD_OUTPUT = 1
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
        help=f"repeat every SECONDS (default: {interval_s:g}) until interrupted",
    )


def repeat(options: argparse.Namespace, once: Callable[[], int]) -> int:
    """Run `once`; with `--watch`, repeatedly until interrupted, reporting errors without ending."""
    if options.watch is None:
        return once()
    status = 0
    try:
        while True:
            if sys.stdout.isatty():
                sys.stdout.write(CLEAR)
            if not getattr(options, "json", False):
                sys.stdout.write(time.strftime(TIMESTAMP))
            status = _report_errors(options, once)
            sys.stdout.flush()
            sleep_while_read(options.watch)
            if not sys.stdout.isatty() and not getattr(options, "json", False):
                sys.stdout.write("\n")
    except KeyboardInterrupt as end:
        if isinstance(end, HungUp):
            raise
        return status


def sleep_while_read(duration_s: float) -> None:
    """Sleep; raise BrokenPipeError as soon as standard output is a pipe whose reader has exited."""
    mode = os.fstat(STANDARD_OUTPUT).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        time.sleep(duration_s)
        return
    poll = select.poll()
    poll.register(STANDARD_OUTPUT, 0)  # POLLERR and POLLHUP are always reported
    if poll.poll(duration_s * 1000):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def _report_errors(options: argparse.Namespace, once: Callable[[], int]) -> int:
    try:
        return once()
    except Exception as error:
        message = str(error) if isinstance(error, CommandError) else explain(error)
        if message is None or isinstance(error, WrongCall | RefusedConnection):
            raise
        complain(options.command, message)
        return 1
