"""The grammar of `-o`, as kcat and rpk document it, and its offsets in partitions."""

from __future__ import annotations

import argparse

import pytest

from barnabas.commands._offsets import Point, Range, parse_point, parse_range, resolve

NOW = 1_700_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR


def at(ms: int) -> Point:
    return Point("time", ms)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("start", Range(Point("start"))),
        ("beginning", Range(Point("start"))),
        ("end", Range(Point("end"))),
        ("stored", Range(Point("committed"))),
        ("0", Range(Point("offset", 0))),
        ("-10", Range(Point("before_end", 10))),
        ("+10", Range(Point("after_start", 10))),
        ("100:200", Range(Point("offset", 100), Point("offset", 200))),
        (":end", Range(Point("start"), Point("end"))),
        (":200", Range(Point("start"), Point("offset", 200))),
        ("100:", Range(Point("offset", 100))),
        ("-5:-1", Range(Point("before_end", 5), Point("before_end", 1))),
        ("3:3", Range(Point("offset", 3), Point("offset", 3))),
        ("-10:end", Range(Point("before_end", 10), Point("end"))),
        ("@1700000000", Range(at(NOW))),
        ("@1700000000000", Range(at(NOW))),
        ("@-1h", Range(at(NOW - HOUR))),
        ("@-1h30m", Range(at(NOW - HOUR * 3 // 2))),
        ("@-1.5h", Range(at(NOW - HOUR * 3 // 2))),
        ("@2023-11-14", Range(at(NOW - 80_000_000))),
        ("@2023-11-14T22:13:20Z", Range(at(NOW))),
        ("@2023-11-14T22:13:20", Range(at(NOW))),
        ("@2023-11-14 22:13:20.5", Range(at(NOW + 500))),
        ("@2023-11-15T00:13:20+02:00", Range(at(NOW))),
        ("@-48h:-24h", Range(at(NOW - 2 * DAY), at(NOW - DAY))),
        ("@2023-11-14T22:13:20Z:2023-11-14T23:13:20Z", Range(at(NOW), at(NOW + HOUR))),
        ("@2023-11-14T22:13:20Z:1h", Range(at(NOW), at(NOW + HOUR))),
        ("@-1m:end", Range(at(NOW - 60_000), Point("end"))),
        ("@:-1h", Range(Point("start"), at(NOW - HOUR))),
        ("@-1h:", Range(at(NOW - HOUR))),
        ("@-1h:now", Range(at(NOW - HOUR), at(NOW))),
        ("s@1700000000000", Range(at(NOW))),
        ("s@5", Range(at(5))),
        ("e@1700000000000", Range(Point("start"), at(NOW))),
        ("@1960-01-01", Range(at(0))),
        ("@0001-01-01T00:00:00+14:00", Range(at(0))),
        ("@-30000d", Range(at(0))),
        (f"@-{'9' * 400}d", Range(at(0))),
        ("@1960-01-01:1d", Range(at(0), at(DAY))),
        ("@1:9999999999999w", Range(at(1000), at(2**63 - 1))),
    ],
)
def test_valid_ranges_are_parsed(text: str, meant: Range) -> None:
    assert parse_range(text, NOW) == meant


@pytest.mark.parametrize(
    "text", ["", "soon", "1.5", ":", "@", "@soon", "1-2", "--1", "@2023-13-01", "@1h:2h:3h", "٣", "s@"]
)
def test_invalid_range_is_refused_with_the_valid_forms(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"write|no such time"):
        parse_range(text, NOW)


@pytest.mark.parametrize("text", ["3:1", "+5:+4", "-1:-5", "@-1h:-2h", "@2026-01-02:2026-01-01"])
def test_a_range_that_ends_before_it_begins_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="ends before it begins"):
        parse_range(text, NOW)


def test_single_offset_is_not_a_range() -> None:
    assert parse_point("-5", NOW) == Point("before_end", 5)
    with pytest.raises(argparse.ArgumentTypeError, match="is a range"):
        parse_point("1:2", NOW)


@pytest.mark.parametrize(
    ("point", "offset"),
    [
        (Point("start"), 10),
        (Point("end"), 20),
        (Point("offset", 15), 15),
        (Point("offset", 5), 10),
        (Point("before_end", 3), 17),
        (Point("before_end", 30), 10),
        (Point("after_start", 3), 13),
        (Point("after_start", 30), 20),
        (Point("committed"), 12),
        (Point("shift", 5), 17),
        (Point("shift", -5), 10),
        (at(NOW), 14),
    ],
)
def test_point_resolves_to_an_offset_at_or_after_the_log_start(point: Point, offset: int) -> None:
    found = resolve(lambda partitions, ms: dict.fromkeys(partitions, 14), point, {"p": 10}, {"p": 20}, {"p": 12})
    assert found == {"p": offset}


def test_partition_without_committed_offset_resolves_to_its_log_start() -> None:
    assert resolve(lambda *_: {}, Point("committed"), {"p": 10}, {"p": 20}) == {"p": 10}


@pytest.mark.parametrize("text", ["@999999999999999999999", "s@9223372036854775808", "9" * 5000, f"-{2**63}"])
def test_time_or_offset_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"there is no such time|the largest offset is"):
        parse_range(text, NOW)


def test_single_offset_error_does_not_propose_a_range() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"03:04:05Z$"):
        parse_point("@foo", NOW)
