"""The demo's oracle and picture."""

from datetime import UTC, datetime
from pathlib import Path

import matplotlib as mpl
import pytest

from spark_jobs.flights import check, picture

HOUR = "2013-05-01T12:00:00Z"
NOON_MS = 1_367_409_600_000


def test_the_oracle_equals_a_manual_calculation() -> None:
    flights: list[dict[str, str | None]] = [
        {"time_hour": HOUR, "minute": "5", "origin": "EWR", "dep_delay": "10", "tailnum": "N1"},
        {"time_hour": HOUR, "minute": "9", "origin": "EWR", "dep_delay": None, "tailnum": "N1"},
        {"time_hour": HOUR, "minute": "7", "origin": "EWR", "dep_delay": "-2", "tailnum": None},
        {"time_hour": HOUR, "minute": "7", "origin": "JFK", "dep_delay": "1", "tailnum": "N9"},
    ]
    assert check.expected_delays(flights) == {(NOON_MS, "EWR"): (3, 2, 8), (NOON_MS, "JFK"): (1, 1, 1)}
    assert check.expected_seats(flights, [{"tailnum": "N1", "seats": "100"}]) == {"EWR": 200, "JFK": 0}


def test_missing_wrong_and_unexpected_results_are_named() -> None:
    found = list(check.differences("planes", {"a": 1, "b": 2}, {"b": 3, "c": 4}))
    assert found == [
        "planes: a is null, should be 1",
        "planes: b is 3, should be 2",
        "planes: c is 4, should be null",
    ]
    many = list(check.differences("planes", dict.fromkeys(range(9), 1), {}))
    assert len(many) == 6
    assert many[-1] == "planes: 9 are wrong in all"


def test_means_are_by_local_hour_and_need_some_flights() -> None:
    noon = datetime(2013, 7, 1, 12, tzinfo=UTC)  # 8 o'clock in New York
    winter = datetime(2013, 1, 1, 13, tzinfo=UTC)  # 8 o'clock too
    windows = [(noon, "EWR", 30, 60.0), (winter, "EWR", 10, 100.0), (noon, "JFK", 5, 500.0)]
    assert picture.means(windows) == {"EWR": {8: 4.0}, "JFK": {}}


@pytest.mark.parametrize(
    ("days", "text"), [(365, "2013"), (20, "the first 20 days of 2013"), (1, "the first day of 2013")]
)
def test_the_title_has_the_days_of_the_picture(tmp_path: Path, days: int, text: str) -> None:
    with mpl.rc_context({"svg.fonttype": "none"}):
        picture.save({"EWR": {5: 12.0, 6: 24.0}}, str(tmp_path / "delays.svg"), days)
    assert f"New York, {text}</text>" in (tmp_path / "delays.svg").read_text()


def test_bars_are_as_long_as_their_means() -> None:
    lines = picture.bars({"EWR": {5: 12.0, 6: 24.0}, "JFK": {6: -1.0}}).splitlines()
    assert lines[0].split() == ["hour", "Newark", "Kennedy"]
    assert [line.count("█") for line in lines[1:]] == [12, 24]
    assert lines[2].endswith("-1.0")
