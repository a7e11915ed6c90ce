"""The options of `barnabas serve`.

Help and errors have the form of the other commands (`barnabas/_arguments.py`). Options for other programs only are not
in the help: `--socket` and `--start-group` (see `barnabas/commands/_brokers.py`), `--ephemeral-dir`
(`barnabas/__main__.py`).
"""

import argparse
import os
from collections.abc import Sequence

from barnabas._arguments import Help, Parser, unknown_arguments
from broker.runtime import log_output
from broker.startup.container import defaults

Options = argparse.Namespace

_OTHER_PROGRAMS = {"--port": "--listen HOST:PORT", "--host": "--listen HOST:PORT"}
"""Options of other servers, with the equivalent here."""

EXAMPLES = """\
examples:
  barnabas serve                                              listen on 127.0.0.1:9092, data in ./barnabas-data
  barnabas serve --ephemeral --listen 127.0.0.1:0             temporary data, on a free port
  barnabas serve --topic letters:3 -D log.retention.hours=48
  barnabas serve --config server.properties --metrics 127.0.0.1:9404
  barnabas serve --listen 0.0.0.0:9092 --advertise kafka.example.com:9092
  barnabas serve --ephemeral --test-profile --control 127.0.0.1:0     for tests that make it fail
"""


def parse(argv: Sequence[str] | None = None) -> Options:
    """Return the options in `argv`. Exit with status 2 on an unknown option, with the most similar one suggested."""
    parser = make_parser()
    options, left = parser.parse_known_args(argv)
    if left:
        parser.error(unknown_arguments(parser, left, _OTHER_PROGRAMS))
    return options


def options() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return, by option, its help text and its possible values; empty if any value is possible."""
    actions = make_parser()._option_string_actions
    shown = {name: action for name, action in actions.items() if action.help != argparse.SUPPRESS}
    return {
        name: ((action.help or "").replace("%(default)s", str(action.default)), tuple(map(str, action.choices or ())))
        for name, action in shown.items()
    }


def make_parser() -> argparse.ArgumentParser:
    """Return the argument parser of `barnabas serve`."""
    others = defaults(os.environ)
    parser = Parser(
        prog="barnabas serve",
        usage="barnabas serve [OPTION]...",
        description="Run a Kafka broker in the foreground.",
        epilog=EXAMPLES,
        formatter_class=Help,
        allow_abbrev=False,
    )
    parser.add_argument("--config", metavar="FILE", help="settings file, as Kafka's server.properties")
    parser.add_argument(
        "-D", dest="define", metavar="KEY=VALUE", action="append", default=[], help="one setting, overrides the file"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help=f"listen address (default: {others.listen})")
    parser.add_argument("--advertise", metavar="HOST:PORT", help="address for clients (default: that of --listen)")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve metrics and probes over HTTP on this address")
    parser.add_argument(
        "--control", metavar="HOST:PORT", help="serve the control API for tests on this loopback address"
    )
    parser.add_argument("--test-profile", action="store_true", help="for tests: no syncs, no rebalance delay")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--data-dir", metavar="DIR", help=f"data directory (default: {others.data_dir})")
    place.add_argument("--ephemeral", action="store_true", help="keep the data in a temporary directory")
    parser.add_argument("--ephemeral-dir", help=argparse.SUPPRESS)
    parser.add_argument(
        "--topic", metavar="NAME[:PARTITIONS]", action="append", default=[], help="create a topic unless it exists"
    )
    parser.add_argument(
        "--add-scram",
        metavar="MECHANISM=[...]",
        action="append",
        default=[],
        help="add a user to a new cluster, as kafka-storage.sh does: 'SCRAM-SHA-256=[name=USER,password-file=FILE]'",
    )
    parser.add_argument("--socket", action="append", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--start-group", help=argparse.SUPPRESS)
    parser.add_argument("--exit-with-parent", action="store_true", help="stop at end of file on standard input")
    parser.add_argument(
        "--log-level", choices=log_output.LEVELS, default="info", help="log this level and above (default: %(default)s)"
    )
    parser.add_argument(
        "--log-format", choices=log_output.FORMATS, default="text", help="log format (default: %(default)s)"
    )
    parser.add_argument(
        "--loop",
        choices=("uvloop", "asyncio"),
        default=os.environ.get("BARNABAS_LOOP") or "uvloop",
        help="event loop (default: %(default)s)",
    )
    return parser
