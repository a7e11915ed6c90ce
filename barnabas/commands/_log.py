"""Common parts of the `log` commands: which files, and starting the server's program that reads them.

The files' formats are in the server's packages, which are never imported here: `hand_over` replaces this process by the
server's program, as `barnabas serve` does, and passes it the request.
"""

import argparse
import json
import os
import sys

from barnabas.commands._client import number
from barnabas.commands._output import WrongCall


def add_target(parser: argparse.ArgumentParser, *, files: bool = True) -> None:
    """Add the arguments that select files."""
    kinds = "the directory of a partition, or a data directory"
    parser.add_argument("paths", nargs="+", metavar="PATH", help=f"a file, {kinds}" if files else kinds)
    parser.add_argument(
        "-t", "--topic", dest="log_topic", metavar="TOPIC", help="in a data directory, only the logs of this topic"
    )
    parser.add_argument("-p", "--partition", type=number, help="with --topic, this partition")


def hand_over(options: argparse.Namespace, **more: object) -> int:
    """Replace this process by the server's program with this request; does not return."""
    if options.partition is not None and options.log_topic is None:
        raise WrongCall("--partition requires --topic")
    if not all(options.paths):
        raise WrongCall("a PATH is empty; for the working directory write .")
    request = {
        "command": options.command.removeprefix("log "),
        "paths": [os.path.abspath(path) for path in options.paths],
        "topic": options.log_topic,
        "partition": options.partition,
        "json": options.json,
        **more,
    }
    launcher = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_launcher.py")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, launcher, "log", json.dumps(request)])  # noqa: S606 - our own program
