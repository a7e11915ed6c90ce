"""Print the last requests of clients and their responses, of brokers that run with the control API, for tests.

Each broker keeps the last 2,000. With --json each is a line of JSON (docs/control-api.yaml, `Exchange`).
"""

from __future__ import annotations

import argparse
import sys

from barnabas.commands._controls import add_control_options, controls
from barnabas.commands._output import CommandError

EXAMPLES = """
  barnabas trace
  barnabas trace --client-id billing --api Produce
  barnabas trace --topic orders --json | jq .response
"""
_LIMIT = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--client-id", metavar="ID", help="requests of the client")
    parser.add_argument("--api", metavar="API", help="requests of an API, as Produce or JoinGroup")
    parser.add_argument("--topic", metavar="NAME", help="requests that name the topic")
    parser.add_argument("--limit", type=int, default=_LIMIT, metavar="N", help=f"the last N of each broker; {_LIMIT}")
    parser.add_argument("--json", action="store_true", help="print lines of JSON, for programs")
    add_control_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit status."""
    from barnabas.testing import ClusterError
    from barnabas.testing._control import path_of

    query = {"client_id": options.client_id, "api": options.api, "topic": options.topic, "limit": options.limit}
    path = path_of("transcript", **query, format="json" if options.json else "text")
    for broker in controls(options):
        try:
            sys.stdout.write(broker.begin("GET", path).data().decode())
        except ClusterError as error:
            raise CommandError(str(error)) from error
    return 0
