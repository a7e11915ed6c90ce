"""Rows as text: aligned columns; for a `.log` file one line per batch, followed by one per record."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

# Column widths are computed for this many rows at a time.
_ROWS_AT_ONCE = 1000
_TIMES = ("timestamp", "max_timestamp")


def print_rows(title: str, rows: Iterable[Mapping[str, Any]], *, is_log: bool) -> bool:
    """Print the rows of a file; return whether any of them reports damage."""
    sys.stdout.write(f"{title}\n")
    rows = iter(rows)
    damaged = False
    widths: list[int] = []
    printed: list[str] = []
    while part := list(islice(rows, _ROWS_AT_ONCE)):
        lines = [_batch_line(row) if is_log else row for row in part]
        whole = next((line for line in lines if "problem" not in line or len(line) > 1), None)
        columns = [name for name in (whole or {}) if name != "problem"]
        if columns != printed:
            widths = [len(column) for column in columns]
        widths = [
            max(width, *(len(cell(line.get(name), name)) for line in lines))
            for width, name in zip(widths, columns, strict=True)
        ]
        if columns != printed:
            _print_line([column.upper().replace("_", "-") for column in columns], widths, columns, lines)
            printed = columns
        for row, line in zip(part, lines, strict=True):
            damaged = _print_row(row, line, columns, widths, lines) or damaged
    sys.stdout.write("\n")
    return damaged


def _print_row(
    row: Mapping[str, Any], line: Mapping[str, Any], columns: Sequence[str], widths: list[int], lines: list[Any]
) -> bool:
    damaged = "problem" in row
    if any(name in line for name in columns):
        _print_line([cell(line.get(name), name) for name in columns], widths, columns, lines)
    if damaged:
        sys.stdout.write(f"  ! {row['problem']}\n")
    for record in row.get("records", ()):
        sys.stdout.write(f"  | {'  '.join(_record_parts(record))}\n")
        damaged = damaged or "problem" in record
    return damaged


def _print_line(cells: Sequence[str], widths: Sequence[int], columns: Sequence[str], lines: list[Any]) -> None:
    numbers = [all(isinstance(line.get(name), int | None) for line in lines) and name not in _TIMES for name in columns]
    padded = (
        text.rjust(width) if number else text.ljust(width)
        for text, width, number in zip(cells, widths, numbers, strict=True)
    )
    sys.stdout.write("  ".join(padded).rstrip() + "\n")


def _batch_line(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a batch, or of bytes that are not a batch."""
    if "base_offset" not in row:
        return {"position": row.get("position"), "bytes": row.get("size"), "problem": row["problem"]}
    marks = {
        "transactional": row["is_transactional"],
        "control": row["is_control"],
        "append time": row["timestamp_type"] == "append",
    }
    producer = f"{row['producer_id']}/{row['producer_epoch']} from {row['base_sequence']}"
    return {
        "position": row["position"],
        "bytes": row["size"],
        "offset": row["base_offset"],
        "last": row["last_offset"],
        "records": row["record_count"],
        "epoch": row["leader_epoch"],
        "codec": row["codec"],
        "max_timestamp": row["max_timestamp"],
        "producer": None if row["producer_id"] < 0 else producer,
        "marks": ", ".join(name for name, is_set in marks.items() if is_set) or None,
    }


def _record_parts(record: Mapping[str, Any]) -> Iterator[str]:
    yield str(record["offset"])
    yield cell(record["timestamp"], "timestamp")
    if record["key"] is not None:
        yield f"key={_quoted(record['key'])}"
    yield f"value={_quoted(record['value'])}"
    if record["headers"]:
        yield "headers=" + ",".join(f"{_quoted(one['key'])}:{_quoted(one['value'])}" for one in record["headers"])
    if "problem" in record:
        yield f"! {record['problem']}"


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def cell(value: Any, name: str) -> str:
    """Return the text of a value in a table; timestamps in UTC."""
    if value is None:
        return "-"
    if name in _TIMES and isinstance(value, int):
        return _time(value)
    if isinstance(value, dict | list):
        return _quoted(value)
    return str(value)


def _time(timestamp_ms: int) -> str:
    if timestamp_ms == -1:
        return "-"
    try:
        return (
            datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
