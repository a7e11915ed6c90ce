"""The demo's oracle: the job's aggregation computed in plain Python from the CSV files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from spark_jobs.flights.dataset import Row, rows, scheduled_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUMS = ("departed", "cancelled", "delay_minutes", "seats", "unknown_planes")

Window = tuple[str, str, str]
"""A day in UTC, an origin and a carrier."""


def expected(flights: Iterable[Row], planes: Iterable[Row]) -> dict[Window, list[int]]:
    """Return the expected result: the SUMS of each window, in order."""
    seats = {plane["tailnum"]: int(plane["seats"] or 0) for plane in planes}
    windows: dict[Window, list[int]] = {}
    for flight in flights:
        day = datetime.fromtimestamp(scheduled_ms(flight) / 1_000, UTC).date().isoformat()
        sums = windows.setdefault((day, flight["origin"] or "", flight["carrier"] or ""), [0] * len(SUMS))
        delay, plane_seats = flight["dep_delay"], seats.get(flight["tailnum"])
        departed = delay is not None
        found = (
            departed,
            not departed,
            int(delay or 0),
            plane_seats or 0 if departed else 0,
            plane_seats is None,
        )
        for index, value in enumerate(found):
            sums[index] += value
    return windows


def compare(parquet: DataFrame, topic: DataFrame) -> list[str]:
    """Return the differences of both outputs from the oracle; empty if they match."""
    wanted = expected(rows("flights"), rows("planes"))
    return [
        *_complaints("Parquet", wanted, _windows(parquet.toLocalIterator())),
        *_complaints("topic delays", wanted, dict(_windows(topic.toLocalIterator()))),
    ]


def read_delays_topic(spark: SparkSession, bootstrap: str) -> DataFrame:
    """Return `delays` as a table with the last record of each key, as required by at-least-once delivery."""
    from pyspark.sql import functions as f

    source = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", "delays")
    newest = source.load().groupBy("key").agg(f.max_by("value", "offset").cast("string").alias("value"))
    schema = "day date, origin string, carrier string, " + ", ".join(f"{name} long" for name in SUMS)
    return newest.select(f.from_json("value", schema).alias("row")).select("row.*")


def _windows(found: Iterable[Any]) -> Iterator[tuple[Window, list[int]]]:
    for row in found:
        yield (row["day"].isoformat(), row["origin"], row["carrier"]), [row[name] for name in SUMS]


def _complaints(
    where: str,
    wanted: dict[Window, list[int]],
    found: Iterable[tuple[Window, list[int]]] | dict[Window, list[int]],
) -> Iterator[str]:
    seen: dict[Window, list[int]] = {}
    for window, sums in found.items() if isinstance(found, dict) else found:
        if window in seen:
            yield f"{where} has {'/'.join(window)} twice"
        seen[window] = sums
    wrong = [window for window in wanted.keys() | seen.keys() if wanted.get(window) != seen.get(window)]
    for window in sorted(wrong)[:5]:
        sums = json.dumps(seen.get(window)), json.dumps(wanted.get(window))
        yield f"{where}: {'/'.join(window)} is {sums[0]}, should be {sums[1]} ({', '.join(SUMS)})"
    if len(wrong) > 5:
        yield f"{where}: {len(wrong)} windows are wrong in all"
