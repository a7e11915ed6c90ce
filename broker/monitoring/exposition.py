"""Prometheus' text format, version 0.0.4: tables of metrics to lines.

A table has rows, each an object with its labels, and columns, each a metric that reads its value off such an object.
The format wants all samples of a metric together, so the rows are gone through once for each column. Lines, and the
rows for them, are made one by one: whoever writes them decides when others get the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from broker.broker import Broker

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

COUNTER, GAUGE, SUMMARY = "counter", "gauge", "summary"
OF_SUMMARY = ""
"""The type of the `_sum` and the `_count` that follow a summary: the format has them in one with it."""

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Column(NamedTuple):
    """One metric: its name, type and help, and its value in a row; a row where that is None has no sample."""

    name: str
    type: str
    help: str
    value: Callable[[Any], float | None]


class Table(NamedTuple):
    """Metrics of the same objects, which `rows` lists with their labels as text; `labels` are the names of those."""

    rows: Callable[[Broker], Iterable[tuple[str, Any]]]
    columns: tuple[Column, ...]
    labels: tuple[str, ...] = ()


def labels(**values: object) -> str:
    """Return labels as they follow a metric's name."""
    return "{" + ",".join(f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in values.items()) + "}"


def lines(tables: Iterable[Table], broker: Broker) -> Iterator[str]:
    """Yield the lines of a page, each with its end."""
    for rows, columns, _ in tables:
        kept: list[tuple[str, Any]] = []  # of the first column's walk, for the others
        for name, metric_type, text, value in columns:
            if metric_type != OF_SUMMARY:
                yield f"# HELP {name} {text}\n"
                yield f"# TYPE {name} {metric_type}\n"
            for row in kept or _keeping(rows(broker), kept):
                number = value(row[1])
                if number is not None:
                    yield f"{name}{row[0]} {number}\n"


def _keeping(rows: Iterable[tuple[str, Any]], kept: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for row in rows:
        kept.append(row)
        yield row
