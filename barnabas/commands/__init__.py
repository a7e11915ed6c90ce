"""The commands that are Kafka clients, one module each; those with subcommands are packages.

Results go to standard output, errors to standard error; the exit status is 0 only if everything that was asked for
happened. 2 means a wrong call. A signal ends each command in good order, and what it means depends on the command:

    SIGINT, SIGTERM    130 and 143; 0 where a command has no other end, as `consume` without --exit, or --watch
    SIGHUP             129, since what was printed last may not have arrived

How a command line is read is `_parser.py`.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from barnabas.commands._output import CommandError, complain, explain
from barnabas.commands._parser import find, make_parser, parse, unknown_command

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Signalled(KeyboardInterrupt):
    """A signal on which a consumer commits and leaves its group as it does on Ctrl-C."""

    number = signal.SIGINT


class Terminated(Signalled):
    """SIGTERM."""

    number = signal.SIGTERM


class HungUp(Signalled):
    """SIGHUP: the terminal is closed, so no output may arrive any more."""

    number = signal.SIGHUP


def run(words: Sequence[str]) -> int:
    """Run the command that these words begin with, and return its exit status."""
    found = find(words)
    if found.is_group and found.rest[:1] == ["help"]:
        found = find([words[0], *found.rest[1:], "--help"])
    parser = make_parser(found)
    open_closed_streams()
    if found.is_group and (not found.rest or found.rest[0] not in ("-h", "--help")):
        subcommands = list(found.module.SUBCOMMANDS)
        sys.stderr.write(
            unknown_command(parser.prog, found.rest[0], subcommands) if found.rest else parser.format_help()
        )
        return 2
    options = parse(parser, found.rest)
    try:
        with _signals_interrupt():
            status = int(found.module.run(options))
            sys.stdout.flush()
            return status
    except CommandError as error:
        return _fail(found.command, str(error), error.status)
    except KeyboardInterrupt as end:
        if isinstance(end, HungUp):
            _forget_closed_terminal()
        return 128 + (end.number if isinstance(end, Signalled) else signal.SIGINT)
    except BrokenPipeError:  # the reader of our output (head, a pager) has seen enough
        _forget_output()
        return 0
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        _forget_output()
        return _fail(found.command, f"cannot write standard output: {error.strerror}", 1)
    except Exception as error:
        message = explain(error)
        if message is None:
            raise
        return _fail(found.command, message, 1)


def _fail(command: str, message: str, status: int) -> int:
    complain(command, message)
    return status


def _forget_output() -> None:
    """Drop what is still to be written, which the interpreter would try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _forget_closed_terminal() -> None:
    """Drop what a closed terminal does not take: the interpreter would fail on it at its end, with status 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def open_closed_streams() -> None:
    """Put /dev/null where the caller has closed a standard stream, so that no connection takes its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open to the end


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, _terminate)}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, _hang_up)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminate(_: int, __: FrameType | None) -> None:
    raise Terminated


def _hang_up(number: int, _: FrameType | None) -> None:
    # The kernel and the shell may each send one: the second must not interrupt the end in good order.
    signal.signal(number, signal.SIG_IGN)
    raise HungUp
