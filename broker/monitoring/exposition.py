"""Prometheus' text format, version 0.0.4: tables of metrics to lines.

A table has rows, each an object with its labels, and columns, each a metric that is read from such an object. The
format requires all samples of a metric together, so the rows are iterated once per column. Lines and rows are generated
one by one: the caller decides when the event loop runs in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from broker.monitoring.monitored import MonitoredNode

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Column(NamedTuple):
    """One metric: name, type, help, and its value in a row; a row where the value is None has no sample.

    The type "" is that of a summary's `_sum` and `_count`, which follow it without a TYPE line of their own.
    """

    name: str
    type: str
    help: str
    value: Callable[[Any], float | None]


class Table(NamedTuple):
    """Metrics of the same objects: `rows` yields each with its labels as text; `labels` are the label names."""

    rows: Callable[[MonitoredNode], Iterable[tuple[str, Any]]]
    columns: tuple[Column, ...]
    labels: tuple[str, ...] = ()


def table(rows: Callable[[MonitoredNode], Iterable[tuple[str, Any]]] | str, *columns: Column, by: str = "") -> Table:
    """Return a table with the labels named in `by`; `rows` is a function, or the path of an attribute of the node.

    That object is the only row, without labels; there is none while an attribute on the path is None.
    """
    return Table(_one(rows) if isinstance(rows, str) else rows, columns, tuple(by.split()))


def column(kind: str, name: str, text: str, value: Callable[[Any], float | None] | str = "") -> Column:
    """Return a column whose value is returned by a function, or read from an attribute; by default the row itself."""
    if isinstance(value, str):
        value = attrgetter(value) if value else _itself
    return Column(name, kind, text, value)


counter, gauge = partial(column, "counter"), partial(column, "gauge")


def _one(path: str) -> Callable[[MonitoredNode], Iterable[tuple[str, Any]]]:
    def rows(node: MonitoredNode) -> list[tuple[str, Any]]:
        found: Any = node
        for name in path.split("."):
            found = None if found is None else getattr(found, name)
        return [] if found is None else [("", found)]

    return rows


def _itself(row: Any) -> Any:
    return row


def labels(**values: object) -> str:
    """Return labels in the format that follows a metric's name."""
    return "{" + ",".join(f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in values.items()) + "}"


def lines(tables: Iterable[Table], node: MonitoredNode) -> Iterator[str]:
    """Yield the lines of a page, each with its line end."""
    for rows, columns, _ in tables:
        kept: list[tuple[str, Any]] = []  # rows of the first column, reused for the others
        for name, metric_type, text, value in columns:
            if metric_type:
                yield f"# HELP {name} {text}\n"
                yield f"# TYPE {name} {metric_type}\n"
            for row in kept or _keeping(rows(node), kept):
                number = value(row[1])
                if number is not None:
                    yield f"{name}{row[0]} {number}\n"


def _keeping(rows: Iterable[tuple[str, Any]], kept: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for row in rows:
        kept.append(row)
        yield row
