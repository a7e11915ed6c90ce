"""The demo's oracle: what its jobs compute, in plain Python from the CSV files.

windows    departures per hour and origin: flights, those that departed, the sum of their delays
table      the planes
join       flights with their planes: the seats per origin
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from spark_jobs.flights.dataset import Row, flights, rows, scheduled_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOUR_MS = 3_600_000
RESULT = "start timestamp, key string, count long, values long, sum double"
SHOWN = 5

Window = tuple[int, str]
"""The beginning of an hour, in ms since 1970, and an origin."""
Figures = Mapping[Any, Any]


def expected_delays(flights: Iterable[Row]) -> dict[Window, tuple[int, int, int]]:
    """Return the number of flights, of departures, and the minutes of delay, per hour and origin."""
    windows: dict[Window, tuple[int, int, int]] = {}
    for flight in flights:
        scheduled = scheduled_ms(flight)
        window = scheduled - scheduled % HOUR_MS, flight["origin"] or ""
        count, departed, minutes = windows.get(window, (0, 0, 0))
        delay = flight["dep_delay"]
        windows[window] = count + 1, departed + (delay is not None), minutes + int(delay or 0)
    return windows


def expected_seats(flights: Iterable[Row], planes: Iterable[Row]) -> Counter[str]:
    """Return the seats of all flights per origin, as far as their planes are known."""
    seats = {plane["tailnum"]: int(plane["seats"] or 0) for plane in planes}
    found: Counter[str] = Counter()
    for flight in flights:
        found[flight["origin"] or ""] += seats.get(flight["tailnum"], 0)
    return found


def delays(spark: SparkSession, bootstrap: str) -> DataFrame:
    """Return topic `delays` as a table with the last record of each key, as required by at-least-once delivery."""
    from pyspark.sql import functions as f

    source = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", "delays")
    newest = source.load().groupBy("key").agg(f.max_by("value", "offset").cast("string").alias("value"))
    parsed = newest.select(f.from_json("value", RESULT).alias("row")).select("row.*")
    return parsed.where("key IS NOT NULL")  # not the windows of closing records


def compare(delays: DataFrame, planes: DataFrame, joined: DataFrame, days: int) -> list[str]:
    """Return the differences of the outputs from the oracle for the year's first days; empty if they match."""
    from pyspark.sql import functions as f

    found = {
        (round(row.start.timestamp() * 1000), row.key): (row["count"], row["values"], int(row["sum"] or 0))
        for row in delays.collect()
    }
    origin = f.get_json_object("value", "$.origin").alias("origin")
    seats = f.get_json_object("joined_value", "$.seats").cast("long").alias("seats")
    by_origin = joined.select(origin, seats).groupBy("origin").sum("seats").where("origin IS NOT NULL").collect()
    departed = list(chain.from_iterable(flights(days)))
    return [
        *differences("topic delays", expected_delays(departed), found),
        *differences(
            "table planes",
            {plane["tailnum"]: int(plane["seats"] or 0) for plane in rows("planes")},
            {row.tailnum: row.seats for row in planes.collect()},
        ),
        *differences("flights with planes", expected_seats(departed, rows("planes")), dict(map(tuple, by_origin))),
    ]


def differences(where: str, wanted: Figures, found: Figures) -> Iterator[str]:
    """Yield a line for each of the first differences, and for their number."""
    wrong = sorted((key for key in {*wanted, *found} if wanted.get(key) != found.get(key)), key=str)
    for key in wrong[:SHOWN]:
        yield f"{where}: {key} is {json.dumps(found.get(key))}, should be {json.dumps(wanted.get(key))}"
    if len(wrong) > SHOWN:
        yield f"{where}: {len(wrong)} are wrong in all"
