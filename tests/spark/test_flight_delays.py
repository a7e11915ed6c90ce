"""The job's transforms on frames of a few rows, and the job itself against a real broker."""

from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from spark_jobs.flights import check, flight_delays

NOON = datetime(2013, 5, 1, 12, tzinfo=UTC)
FLIGHTS = "scheduled timestamp, carrier string, origin string, tailnum string, dep_delay int, seats int"


def flights(spark: SparkSession, *rows: tuple[object, ...]):  # type: ignore[no-untyped-def]
    return spark.createDataFrame(rows, FLIGHTS)


def test_delays_are_summed_by_day_origin_and_carrier(spark: SparkSession) -> None:
    next_day = NOON.replace(day=2)
    frame = flights(
        spark,
        (NOON, "UA", "EWR", "N1", 10, 100),
        (NOON, "UA", "EWR", "N2", -3, 50),
        (NOON, "UA", "JFK", "N1", 7, 100),
        (next_day, "UA", "EWR", "N1", 1, 100),
    )
    found = {(r.day, r.origin): (r.departed, r.delay_minutes) for r in flight_delays.daily_delays(frame).collect()}
    assert found == {
        (date(2013, 5, 1), "EWR"): (2, 7),
        (date(2013, 5, 1), "JFK"): (1, 7),
        (date(2013, 5, 2), "EWR"): (1, 1),
    }


def test_flight_without_delay_counts_as_cancelled_only(spark: SparkSession) -> None:
    frame = flights(spark, (NOON, "UA", "EWR", "N1", None, 100), (NOON, "UA", "EWR", "N2", 4, 50))
    [row] = flight_delays.daily_delays(frame).collect()
    assert (row.departed, row.cancelled, row.delay_minutes, row.seats) == (1, 1, 4, 50)


def test_day_with_only_cancelled_flights_has_sums_of_zero(spark: SparkSession) -> None:
    [row] = flight_delays.daily_delays(flights(spark, (NOON, "UA", "EWR", "N1", None, None))).collect()
    assert (row.departed, row.cancelled, row.delay_minutes, row.seats, row.unknown_planes) == (0, 1, 0, 0, 1)


def test_flight_with_unknown_plane_has_no_seats(spark: SparkSession) -> None:
    planes = spark.createDataFrame([("N1", "A320", 150)], flight_delays.PLANE_SCHEMA)
    frame = flights(spark, (NOON, "UA", "EWR", "N1", 1, 0), (NOON, "UA", "EWR", "N9", 1, 0)).drop("seats")
    joined = flight_delays.with_planes(frame, planes)
    assert {row.tailnum: row.seats for row in joined.collect()} == {"N1": 150, "N9": None}


def test_last_record_of_a_plane_wins(spark: SparkSession) -> None:
    records = spark.createDataFrame(
        [
            (b"N1", b'{"tailnum":"N1","model":"A320","seats":150}', 0, 0),
            (b"N1", b'{"tailnum":"N1","model":"A321","seats":180}', 0, 1),
        ],
        "key binary, value binary, partition int, offset long",
    )
    assert flight_delays.parse_planes(records).collect() == [Row(tailnum="N1", model="A321", seats=180)]


def test_closing_record_reaches_no_output(spark: SparkSession) -> None:
    records = spark.createDataFrame(
        [(None, NOON), (b'{"carrier":"UA","origin":"EWR","tailnum":"N1","dep_delay":2}', NOON)],
        "value binary, timestamp timestamp",
    )
    planes = spark.createDataFrame([], flight_delays.PLANE_SCHEMA)
    delays = flight_delays.daily_delays(
        flight_delays.with_planes(flight_delays.parse_flights(records), planes),
    )
    assert [row.origin for row in flight_delays.without_closing_records(delays).collect()] == ["EWR"]


def test_delay_record_is_keyed_by_its_window(spark: SparkSession) -> None:
    delays = flight_delays.daily_delays(flights(spark, (NOON, "UA", "EWR", "N1", 2, 100)))
    [record] = flight_delays.delay_records(delays).collect()
    assert record.key == "2013-05-01/EWR/UA"
    assert '"delay_minutes":2' in record.value


def test_oracle_equals_manual_calculation() -> None:
    hour = "2013-05-01T12:00:00Z"
    rows = [
        {"time_hour": hour, "minute": "5", "origin": "EWR", "carrier": "UA", "dep_delay": "10", "tailnum": "N1"},
        {"time_hour": hour, "minute": "9", "origin": "EWR", "carrier": "UA", "dep_delay": None, "tailnum": "N1"},
        {"time_hour": hour, "minute": "7", "origin": "EWR", "carrier": "UA", "dep_delay": "-2", "tailnum": None},
    ]
    planes: list[dict[str, str | None]] = [{"tailnum": "N1", "seats": "100"}]
    assert check.expected(rows, planes) == {("2013-05-01", "EWR", "UA"): [2, 1, 8, 100, 1]}  # type: ignore[arg-type]  # of a type that is known here


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ([], "is null, should be [1]"),
        ([(("d", "o", "c"), [2])], "is [2], should be [1]"),
        ([(("d", "o", "c"), [1])] * 2, "has d/o/c twice"),
    ],
)
def test_check_names_missing_wrong_and_duplicate_rows(found: list[Any], complaint: str) -> None:
    [text] = check._complaints("Parquet", {("d", "o", "c"): [1]}, found)
    assert complaint in text
