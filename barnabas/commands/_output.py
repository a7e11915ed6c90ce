"""Output of the commands: tables or JSON for results, one-line messages for errors.

Results go to standard output, errors to standard error. A command returns plain data, rows as dicts; `show` prints them
as an aligned table or, with `--json`, unchanged.
"""

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

# kafka-python's prefix of a broker's error message: "[Error 37] InvalidPartitionsError: ".
_PREFIX = re.compile(
    r"(?:Could not execute transactional request for unknown reasons: "
    r"|(?:\[Error -?\d+\] [A-Za-z]+|[A-Za-z]+Error)(?:: |$))+"
)

# The beginning of kafka-python's message if the coordinator of a group cannot be looked up.
_COORDINATOR = re.compile(r"FindCoordinatorResponse error for GROUP/(.*): ")

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

SHOWN = 5
NO_LEADER = -1
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

Row = Mapping[str, Any]


class CommandError(Exception):
    """An error to report to the user; the message has the problem and, if possible, the remedy."""

    status = 1


class WrongCall(CommandError):  # noqa: N818 - about the command line
    """An invalid command line."""

    status = 2


class RefusedConnection(CommandError):  # noqa: N818 - a state of the cluster
    """A broker has refused the login or the TLS handshake: it would refuse another attempt, too."""


class Report:
    """The result of each item that a command processes; `end` returns the exit status.

    Text output is one line per item as it happens, `--json` one array at the end.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._command = options.command
        self._json = options.json
        self._all: list[dict[str, Any]] = []
        self._failed = False

    def done(self, did: str, name: str, note: str = "", **facts: Any) -> None:
        """Report a success; `facts` are added to the JSON."""
        self._all.append({"name": name, "result": did, **facts})
        if not self._json:
            sys.stdout.write(printable(f"{did} {name}{f': {note}' if note else ''}") + "\n")

    def failed(self, name: str, why: str) -> None:
        """Report a failure."""
        self._failed = True
        self._all.append({"name": name, "error": why})
        complain(self._command, f"{name}: {why}")

    def end(self) -> int:
        """Print the JSON if requested; return the exit status, 1 if anything failed."""
        if self._json:
            show_json(self._all)
        return 1 if self._failed else 0


def complain(command: str, what: str) -> None:
    """Print an error message after the results so far."""
    sys.stdout.flush()
    sys.stderr.write(f"barnabas {command}: {what}\n")


def complain_of(command: str, problems: Sequence[str]) -> int:
    """Print each problem as an error message; return the exit status, 1 if there is any."""
    for problem in problems:
        complain(command, problem)
    return 1 if problems else 0


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def show(
    options: argparse.Namespace,
    columns: Sequence[str],
    rows: Sequence[Row],
    wrong: Callable[[Row], bool] = lambda _: False,
) -> None:
    """Print rows: a table of `columns`, with rows that are `wrong` in red, or JSON of all fields."""
    if options.json:
        show_json(list(rows))
    else:
        print_table(columns, rows, wrong=wrong)


def show_json(data: Any) -> None:
    """Print one JSON document."""
    json.dump(data, sys.stdout, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write("\n")


def print_table(
    columns: Sequence[str], rows: Sequence[Row], indent: str = "", wrong: Callable[[Row], bool] = lambda _: False
) -> None:
    """Print rows in aligned columns under an upper-case header, as `kubectl` and `rpk` do; numbers are right-aligned.

    On a terminal, rows that are `wrong` are red.
    """
    cells = [[_cell_of(column, row.get(column)) for column in columns] for row in rows]
    titles = [column.upper().replace("_", "-") for column in columns]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    rights = [_all_numbers([row.get(column) for row in rows]) for column in columns]
    for line, row in ((titles, None), *zip(cells, rows, strict=True)):
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, rights, strict=True)
        )
        text = (indent + "  ".join(padded)).rstrip()
        sys.stdout.write((red(text) if row is not None and wrong(row) else text) + "\n")


def print_facts(facts: Mapping[str, Any], indent: str = "", wrong: Container[str] = ()) -> None:
    """Print one name and value per line, values aligned; on a terminal, those that are `wrong` in red."""
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        text = f"{indent}{name.upper().replace('_', '-').ljust(width)}  {_cell_of(name, value)}".rstrip()
        sys.stdout.write((red(text) if name in wrong else text) + "\n")


def red(text: str) -> str:
    """Return the text in red if standard output is a terminal and NO_COLOR (no-color.org) is not set."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[31m{text}\x1b[0m" if coloured else text


def _cell_of(column: str, value: Any) -> str:
    """Return a column's value as text: sizes with a unit, and "none" for no leader."""
    if column == "leader" and value == NO_LEADER:
        return "none"
    if column.endswith("bytes") and isinstance(value, int):
        return size_text(value)
    return cell(value)


def size_text(size_bytes: int) -> str:
    """Return a size with a unit and three significant digits: "512 B", "1.5 KiB", "20 GiB"."""
    size, unit = float(size_bytes), 0
    while size >= 999.5 and unit < len(UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{size:.3g} {UNITS[unit]}"


def cell(value: Any) -> str:
    """Return a value as text for a table: on one line, and without what controls a terminal."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple | set):
        return printable(",".join(map(str, value))) or "-"
    return printable(str(value))


def printable(text: str) -> str:
    """Return a text with escapes for control characters, as in Python: clients choose some of the names."""
    return _CONTROL.sub(lambda found: repr(found.group())[1:-1], text)


def _all_numbers(values: Sequence[Any]) -> bool:
    """Return whether all values are integers, missing ones aside."""
    return any(value is not None for value in values) and all(
        value is None or (isinstance(value, int) and not isinstance(value, bool)) for value in values
    )


def explain(error: Exception, needs: Mapping[str, str] = {}) -> str | None:
    """Return a one-line message for a Kafka client error; None for any other error.

    `needs` has the operation that the command needs on each kind of resource, as far as it is known.
    """
    from kafka import errors

    if not isinstance(error, errors.KafkaError):
        return None
    if isinstance(error, errors.IncompatibleBrokerVersion):
        return f"the broker does not support this request ({plain(str(error))})"
    if isinstance(error, errors.UnknownBrokerIdError):
        return f"there is no broker {plain(str(error))}"
    if isinstance(error, errors.UnknownError) and not error.args:
        return "the broker failed to do this; see its log"
    if isinstance(error, errors.KafkaConnectionError | errors.KafkaTimeoutError | errors.NodeNotReadyError):
        return f"the broker does not answer, or advertises an address that cannot be reached ({plain(str(error))})"
    text = plain(str(error))
    for kind, what in (
        (errors.TopicAuthorizationFailedError, "topic"),
        (errors.GroupAuthorizationFailedError, "group"),
    ):
        if isinstance(error, kind) and (refused := _unauthorized(error, what, needs.get(what))):
            return refused
    if isinstance(error, errors.BrokerResponseError) and " " not in text:  # a topic's name, or empty
        text = ": ".join(filter(None, (text, explain_code(error.errno))))
    if isinstance(error, errors.InvalidReplicationFactorError):
        return f"{text} (fewer live brokers than default.replication.factor?)"
    if isinstance(error, errors.RequestTimedOutError):
        return f"{text}; `barnabas health` shows whether the controller answers"
    return text


def _unauthorized(error: Exception, what: str, operation: str | None) -> str | None:
    """Return which topics, or which group, the user may not access; None if the error does not have them."""
    of = error.args[0] if error.args else ()
    if isinstance(of, str):
        named = _COORDINATOR.match(of)
        of = (named[1],) if named else () if " " in of else (of,)
    if not of:
        return None
    if operation:
        return lacking("User:NAME", operation, what, sorted(of))
    several = "s" if len(of) > 1 else ""
    return f"this user is not authorized to access {what}{several} {some(sorted(of))}; `barnabas acl add` can allow it"


def lacking(
    principal: str, operation: str, kind: str, names: Sequence[str] = (), note: str = "", option: str = ""
) -> str:
    """Return that the user needs an operation on the cluster, or on resources by name, and the command that allows it.

    `note` is about other operations, which the option of `acl add` adds as well.
    """
    where = f"{kind} {some(names)}" if names else f"the {kind}"
    which = " ".join(f"--{kind} {shlex.quote(name)}" for name in names) or f"--{kind}"
    return (
        f"this user is not authorized: it needs {operation} on {where}{note} (`barnabas acl add --allow-principal "
        f"{shlex.quote(principal)} {option or f'--operation {operation}'} {which}`)"
    )


def plain(text: str) -> str:
    """Return an error's text without the client's class names."""
    return " ".join(_PREFIX.sub("", text, count=1).split())


def explain_code(code: int, message: str | None = None) -> str:
    """Return the message of a broker's error code: the broker's own if it has one."""
    from kafka.errors import UnknownTopicOrPartitionError, for_code

    kind = for_code(code)
    if kind is UnknownTopicOrPartitionError:
        message = message or "there is no such topic or partition"
    return message or str(kind.description or kind.message)


def some(names: Sequence[str]) -> str:
    """Return the first `SHOWN` names, and the number of the others."""
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + rest


def amount_of(number: int, what: str, plural: str = "") -> str:
    """Return "1 record" or "2,000 records"; log lines have plain digits (`protocol.plural`)."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"
