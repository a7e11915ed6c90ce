"""Print the last requests of clients and their responses, of brokers that run with the control API, for tests.

Each broker keeps the last 2,000. With --json each is a line of JSON (docs/control-api.yaml, `Exchange`). --follow goes
on with the next ones, until the brokers end or Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from barnabas.commands._controls import add_control_options, controls
from barnabas.commands._output import CommandError

if TYPE_CHECKING:
    from barnabas.testing._control import ControlClient

EXAMPLES = """
  barnabas trace
  barnabas trace --client-id billing --api Produce
  barnabas trace --topic orders --json | jq .response
  barnabas trace --follow --client-id billing
"""
_LIMIT = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--client-id", metavar="ID", help="requests of the client")
    parser.add_argument("--api", metavar="API", help="requests of an API, as Produce or JoinGroup")
    parser.add_argument("--topic", metavar="NAME", help="requests that name the topic")
    parser.add_argument("--limit", type=int, default=_LIMIT, metavar="N", help=f"the last N of each broker; {_LIMIT}")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with the next requests as they are answered")
    parser.add_argument("--json", action="store_true", help="print lines of JSON, for programs")
    add_control_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit status."""
    from barnabas.testing import ClusterError
    from barnabas.testing._control import path_of

    query = {"client_id": options.client_id, "api": options.api, "topic": options.topic, "limit": options.limit}
    path = path_of("transcript", **query, format="json" if options.json else "text")
    try:
        if options.follow:
            _follow(controls(options), f"{path}&follow=true")
        else:
            for broker in controls(options):
                sys.stdout.write(broker.begin("GET", path).data().decode())
    except ClusterError as error:
        raise CommandError(str(error)) from error
    return 0


def _follow(brokers: list[ControlClient], path: str) -> None:
    """Print the lines of all brokers in the order in which they come, until each has ended."""
    from queue import SimpleQueue
    from threading import Thread

    from barnabas.testing import ClusterError

    came: SimpleQueue[bytes | ClusterError | None] = SimpleQueue()

    def read(broker: ControlClient) -> None:
        try:
            for line in broker.begin("GET", path).lines():
                came.put(line)
        except ClusterError as error:
            came.put(error)
        came.put(None)

    for broker in brokers:
        Thread(target=read, args=(broker,), daemon=True).start()
    left, failure = len(brokers), None
    while left:
        match came.get():
            case None:
                left -= 1
            case ClusterError() as error:
                failure = error
            case line:
                sys.stdout.write(line.decode())
                sys.stdout.flush()
    if failure is not None:
        raise failure
