"""The commands that are Kafka clients, one module each; those with subcommands are packages.

Results go to standard output, errors to standard error; the exit status is 0 only if everything that was asked for
happened. 2 means a wrong call, 130 an interrupt. How a command line is read is `_parser.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from barnabas.commands._output import CommandError, explain
from barnabas.commands._parser import find, make_parser


def run(words: Sequence[str]) -> int:
    """Run the command that these words begin with, and return its exit status."""
    found = find(words)
    parser = make_parser(found)
    if found.is_group and (not found.rest or found.rest[0] not in ("-h", "--help")):
        return _no_subcommand(parser.format_help(), found.command, found.rest)
    options = parser.parse_intermixed_args(found.rest)
    try:
        status = int(found.module.run(options))
        sys.stdout.flush()
        return status
    except CommandError as error:
        return _fail(found.command, str(error), error.status)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output (head, a pager) has seen enough; nor shall the interpreter try again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        message = explain(error)
        if message is None:
            raise
        return _fail(found.command, message, 1)


def _fail(command: str, message: str, status: int) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"barnabas {command}: {message}\n")
    return status


def _no_subcommand(usage: str, command: str, rest: list[str]) -> int:
    complaint = f"barnabas {command}: unknown command {rest[0]!r}\n\n" if rest else ""
    sys.stderr.write(complaint + usage)
    return 2
