"""What every command says, and how: tables, JSON lines, and client errors as sentences."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence


class CommandError(Exception):
    """Something that the user can mend; the message says what was wrong and what would be right."""


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
        return f"no answer from a broker ({error}); is one running there? `barnabas serve` starts one"
    return str(error)
