"""What every command says, and how: tables, and errors as sentences."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence

# kafka-python puts this before what the broker says: "[Error 37] InvalidPartitionsError: ".
_PREFIX = re.compile(r"(\[Error -?\d+\] )?[A-Za-z]+Error: ")


class CommandError(Exception):
    """Something that the user can mend; the message says what was wrong and what would be right."""

    status = 1


class WrongCall(CommandError):  # noqa: N818 - not what happened, but what was asked for
    """The command line contradicts itself."""

    status = 2


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows in aligned columns under an upper-case header, as `kubectl` and `rpk` do."""
    table = [[title.upper() for title in header], *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        sys.stdout.write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n")


def explain(error: Exception) -> str | None:
    """Say in one line what a Kafka client error means; None for an error that is not the client's."""
    from kafka import errors

    if not isinstance(error, errors.KafkaError):
        return None
    if isinstance(error, (errors.KafkaConnectionError, errors.KafkaTimeoutError)):
        return f"no answer from a broker ({plain(str(error))}); is one running there? `barnabas serve` starts one"
    return plain(str(error))


def plain(text: str) -> str:
    """Return an error's text without the client's names for it."""
    return _PREFIX.sub("", text, count=1)


def explain_code(code: int, message: str | None) -> str:
    """Say what a broker's error code means: in the broker's own words, if it has any."""
    from kafka.errors import for_code

    kind = for_code(code)
    return message or str(kind.description or kind.message)
