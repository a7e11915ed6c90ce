"""The commands that are Kafka clients, one module each; commands with subcommands are packages.

Results go to standard output, errors to standard error. The exit status is 0 only if everything requested was done, and
2 for an invalid command line. A signal ends each command in order:

    SIGINT, SIGTERM    130 and 143; 0 if the command has no other end, as `consume` without --exit, or --watch
    SIGHUP             129: the last output may not have arrived

A second SIGINT or SIGTERM ends the command at once, whatever its clients still wait for.

`_parser.py` parses the command line.
"""

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


class Terminated(KeyboardInterrupt):
    """SIGTERM, on which a consumer commits and leaves its group, as on Ctrl-C."""

    number = signal.SIGTERM


class HungUp(Terminated):
    """SIGHUP: the terminal is closed, output may be lost."""

    number = signal.SIGHUP


def run_command(words: Sequence[str]) -> int:
    """Run the command that `words` starts with, and return its exit status."""
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
    options = None if found.passes_words_on else parse(parser, found.rest)
    try:
        if options is None:
            return int(found.module.pass_on(found.rest))
        with _signals_interrupt():
            status = int(found.module.run(options))
            sys.stdout.flush()
            return status
    except CommandError as error:
        return _fail(found.command, str(error), error.status)
    except KeyboardInterrupt as end:
        if isinstance(end, HungUp):
            _forget_closed_terminal()
        return 128 + (end.number if isinstance(end, Terminated) else signal.SIGINT)
    except BrokenPipeError:  # the reader of our output (head, a pager) has exited
        forget_output()
        return 0
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        forget_output()
        return _fail(found.command, f"cannot write standard output: {error.strerror}", 1)
    except Exception as error:
        message = explain(error, getattr(found.module, "NEEDS", {}))
        if message is None:
            raise
        return _fail(found.command, message, 1)


def _fail(command: str, message: str, status: int) -> int:
    complain(command, message)
    return status


def forget_output() -> None:
    """Discard buffered output: the interpreter would try to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _forget_closed_terminal() -> None:
    """Discard output to a closed terminal: the interpreter would fail on it at exit, with status 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def open_closed_streams() -> None:
    """Open /dev/null for closed standard streams, so that no connection gets their descriptors."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open to the end


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, _terminate)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell ignores it for commands behind `&`
        before[signal.SIGINT] = signal.signal(signal.SIGINT, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, _hang_up)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is not signal.SIG_DFL:  # else the process is ending
                signal.signal(number, handler)


def _end_at_the_next() -> None:
    """Let the next SIGINT or SIGTERM end the process, without a traceback, until it has exited."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(_: int, __: FrameType | None) -> None:
    _end_at_the_next()
    raise KeyboardInterrupt


def _terminate(_: int, __: FrameType | None) -> None:
    _end_at_the_next()
    raise Terminated


def _hang_up(number: int, _: FrameType | None) -> None:
    # The kernel and the shell may each send one: the second must not interrupt the shutdown.
    signal.signal(number, signal.SIG_IGN)
    _end_at_the_next()
    raise HungUp
