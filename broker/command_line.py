"""The options of `barnabas serve`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from broker import logs
from broker.container import defaults

Options = argparse.Namespace

EXAMPLES = """\
examples:
  barnabas serve                                              on 127.0.0.1:9092, data in ./barnabas-data
  barnabas serve --ephemeral --listen 127.0.0.1:0             data that is deleted at the end, on a free port
  barnabas serve --topic letters:3 -D log.retention.hours=48
  barnabas serve --config server.properties --metrics 127.0.0.1:9404
  barnabas serve --listen 0.0.0.0:9092 --advertise kafka.example.com:9092
"""


def parse(argv: Sequence[str] | None = None) -> Options:
    """Return the options in `argv`; end with 2 over an unknown one, with the known one that is most like it."""
    parser = make_parser()
    options, left = parser.parse_known_args(argv)
    if left:
        from difflib import get_close_matches  # only where something is wrong

        word = left[0].partition("=")[0]
        close = get_close_matches(word, list(parser._option_string_actions), n=1) if word.startswith("--") else []
        parser.error(f"unknown argument: {left[0]}" + (f"; did you mean {close[0]}?" if close else ""))
    return options


def options() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return each option with what it does, and what it may be; nothing where it may be anything."""
    actions = make_parser()._option_string_actions
    shown = {name: action for name, action in actions.items() if action.help != argparse.SUPPRESS}
    return {name: (action.help or "", tuple(map(str, action.choices or ()))) for name, action in shown.items()}


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of `barnabas serve`."""
    others = defaults(os.environ)
    parser = argparse.ArgumentParser(
        prog="barnabas serve",
        description="Run a Kafka broker in the foreground.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", metavar="FILE", help="settings, as Kafka's server.properties")
    parser.add_argument(
        "-D", dest="define", metavar="KEY=VALUE", action="append", default=[], help="one setting, over the file's"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help=f"where to listen (default {others.listen})")
    parser.add_argument("--advertise", metavar="HOST:PORT", help="what clients connect to (default: as --listen)")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve metrics and probes over HTTP there")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--data-dir", metavar="DIR", help=f"where the data lies (default {others.data_dir})")
    place.add_argument("--ephemeral", action="store_true", help="keep the data in a temporary directory")
    # From the launcher, which sees to it that the directory goes with this process even if that is killed.
    parser.add_argument("--ephemeral-dir", help=argparse.SUPPRESS)
    parser.add_argument(
        "--topic", metavar="NAME[:PARTITIONS]", action="append", default=[], help="create a topic unless it exists"
    )
    parser.add_argument(
        "--socket",
        metavar="LISTENER=FD",
        action="append",
        default=[],
        help="a socket, inherited and bound already, for a listener",
    )
    parser.add_argument(
        "--start-group",
        metavar="TAG:BROKERS",
        help="be ready once this broker knows all those that are started with the same random tag",
    )
    parser.add_argument("--exit-with-parent", action="store_true", help="stop when standard input comes to its end")
    parser.add_argument("--log-level", choices=logs.LEVELS, default="info")
    parser.add_argument("--log-format", choices=logs.FORMATS, default="text")
    parser.add_argument(
        "--loop", choices=("uvloop", "asyncio"), default=os.environ.get("BARNABAS_LOOP", "uvloop"), help="event loop"
    )
    return parser
