"""The options of `barnabas serve`.

The help and the errors have the form that `barnabas/commands/_parser.py` gives those of the other commands; the server
does not import it. Options that only another program passes are not in the help: `--socket` and `--start-group`
(described in `barnabas/commands/_brokers.py`), and `--ephemeral-dir` (`barnabas/__main__.py`).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from broker import logs
from broker.container import defaults

Options = argparse.Namespace

_OTHER_PROGRAMS = {"--port": "--listen HOST:PORT", "--host": "--listen HOST:PORT"}
"""What the options of other servers are here."""

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
        parser.error(_left_over(parser, left))
    return options


def options() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return each option with what it does, and what it may be; nothing where it may be anything."""
    actions = make_parser()._option_string_actions
    shown = {name: action for name, action in actions.items() if action.help != argparse.SUPPRESS}
    return {
        name: ((action.help or "").replace("%(default)s", str(action.default)), tuple(map(str, action.choices or ())))
        for name, action in shown.items()
    }


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of `barnabas serve`."""
    others = defaults(os.environ)
    parser = _Parser(
        prog="barnabas serve",
        usage="barnabas serve [OPTION]...",
        description="Run a Kafka broker in the foreground.",
        epilog=EXAMPLES,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    parser.add_argument("--config", metavar="FILE", help="settings, as Kafka's server.properties")
    parser.add_argument(
        "-D", dest="define", metavar="KEY=VALUE", action="append", default=[], help="one setting, over the file's"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help=f"where to listen (default: {others.listen})")
    parser.add_argument("--advertise", metavar="HOST:PORT", help="what clients connect to (default: as --listen)")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve metrics and probes over HTTP there")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--data-dir", metavar="DIR", help=f"where the data lies (default: {others.data_dir})")
    place.add_argument("--ephemeral", action="store_true", help="keep the data in a temporary directory")
    parser.add_argument("--ephemeral-dir", help=argparse.SUPPRESS)
    parser.add_argument(
        "--topic", metavar="NAME[:PARTITIONS]", action="append", default=[], help="create a topic unless it exists"
    )
    parser.add_argument("--socket", action="append", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--start-group", help=argparse.SUPPRESS)
    parser.add_argument("--exit-with-parent", action="store_true", help="stop when standard input comes to its end")
    parser.add_argument(
        "--log-level", choices=logs.LEVELS, default="info", help="log this level and above (default: %(default)s)"
    )
    parser.add_argument(
        "--log-format", choices=logs.FORMATS, default="text", help="the form of log lines (default: %(default)s)"
    )
    parser.add_argument(
        "--loop",
        choices=("uvloop", "asyncio"),
        default=os.environ.get("BARNABAS_LOOP", "uvloop"),
        help="the event loop (default: %(default)s)",
    )
    return parser


def _left_over(parser: argparse.ArgumentParser, left: Sequence[str]) -> str:
    """Return the complaint about arguments that the parser does not know."""
    options = [word.partition("=")[0] for word in left if word.startswith("-")]
    if not options:
        return f"unexpected {'argument' if len(left) == 1 else 'arguments'}: {' '.join(left)}"
    from difflib import get_close_matches  # only on an error

    # Hidden options can be written, but are not suggested.
    known = [name for action in parser._actions if action.help != argparse.SUPPRESS for name in action.option_strings]
    if options[0] in _OTHER_PROGRAMS:
        return f"there is no option {options[0]}; write {_OTHER_PROGRAMS[options[0]]}"
    close = get_close_matches(options[0], known, n=1) if options[0].startswith("--") else []
    return f"there is no option {options[0]}" + (f"; did you mean {close[0]}?" if close else "")


class _Parser(argparse.ArgumentParser):
    """A parser that lists the values that an option may have where it gets another."""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            listed = ", ".join(map(str, action.choices))
            raise argparse.ArgumentError(action, f"{str(value)!r}: write one of {listed}")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help with the width and the columns of the other commands."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=110)
