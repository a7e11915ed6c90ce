"""Parsing of offsets, ranges and times, as kcat and rpk write them.

    start beginning earliest   the first record                 N        offset N
    end latest                 after the last record            -N       the last N records
    stored committed           the group's committed offset     +N       N after the start
    @TIME  s@TIME              the first record of that time    A:B      from A up to B, exclusive
    @T1:T2                     between two times                :B       from the start up to B
    e@TIME                     up to that time                  @:T2     from the start up to that time

A time is an ISO 8601 date, with or without a time (UTC by default), milliseconds or seconds since 1970, or an age:
-90s, -15m, -1h30m, -7d. As T2, a span without a sign (24h) counts from T1, and `end` is the partition's current end.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from barnabas.commands._client import MAX_DIGITS, MAX_INT64

if TYPE_CHECKING:
    from kafka import TopicPartition

    Offsets = Mapping[TopicPartition, int]

WORDS = {
    "start": "start",
    "beginning": "start",
    "earliest": "start",
    "end": "end",
    "latest": "end",
    "stored": "committed",
    "committed": "committed",
}
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_ISO = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
_SPAN = r"-?(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+"
_TIMES = re.compile(rf"(?P<first>{_ISO}|{_SPAN}|\d+|now)?(?P<colon>:(?P<second>{_ISO}|{_SPAN}|\d+|now|end)?)?")
# A number with more digits than this is in milliseconds, not in seconds.
MAX_DIGITS_OF_SECONDS = 11
WRITE_TIME = "write a time as @-1h, @2026-01-02, @2026-01-02T03:04:05Z"
WRITE_POINT = "write start, end, stored, N, -N, +N or @TIME"
WRITE = "write start, end, stored, N, -N, +N, @TIME, or a range of them as 100:200 or :end"


class Point(NamedTuple):
    """A position in every partition; `kind`: start, end, committed, offset, after_start, before_end, shift or time."""

    kind: str
    value: int = 0


class Range(NamedTuple):
    """The range to read; `stop` is exclusive."""

    first: Point = Point("start")
    stop: Point | None = None


def parse_point(text: str, now_ms: int | None = None, write: str = WRITE_POINT) -> Point:
    """Parse one position, for an option that takes no range; `write` is its syntax for the error message."""
    try:
        found = parse_range(text, now_ms)
    except argparse.ArgumentTypeError as error:
        if str(error) == f"{text!r}: {WRITE_TIME} or @T1:T2":
            raise argparse.ArgumentTypeError(f"{text!r}: {WRITE_TIME}") from None
        if WRITE not in str(error):
            raise
        raise argparse.ArgumentTypeError(f"{text!r}: {write}") from None
    if found.stop is not None:
        raise argparse.ArgumentTypeError(f"{text!r} is a range; write one offset or time")
    return found.first


def parse_range(text: str, now_ms: int | None = None) -> Range:
    """Parse the value of `-o`."""
    found = _parse_range(text, int(time.time() * 1000) if now_ms is None else now_ms)
    first, stop = found
    if stop and stop.kind == first.kind and (stop.value - first.value) * (-1 if stop.kind == "before_end" else 1) < 0:
        raise argparse.ArgumentTypeError(f"{text!r} ends before it begins")
    return found


def _parse_range(text: str, now_ms: int) -> Range:
    if text.startswith("s@"):
        return Range(Point("time", _time(text[2:], now_ms, text)))
    if text.startswith("e@"):
        return Range(stop=Point("time", _time(text[2:], now_ms, text)))
    if text.startswith("@"):
        return _parse_times(text, now_ms)
    first, colon, stop = text.partition(":")
    if not colon:
        return Range(_point(first, text))
    if not (first or stop):
        raise argparse.ArgumentTypeError(f"{text!r}: {WRITE}")
    return Range(_point(first, text) if first else Point("start"), _point(stop, text) if stop else None)


def duration_ms(text: str) -> int:
    """Parse a duration, such as 90s, 15m or 1h30m, in ms."""
    if not re.fullmatch(_SPAN, text) or text.startswith("-"):
        raise argparse.ArgumentTypeError(f"{text!r}: write a duration as 90s, 15m or 1h30m")
    return _span_ms(text)


def resolve(
    at_time: Callable[[list[TopicPartition], int], Offsets],
    point: Point,
    starts: Offsets,
    ends: Offsets,
    committed: Offsets | None = None,
) -> dict[TopicPartition, int]:
    """Return the offset of a point in each partition, at least the partition's start.

    `at_time` returns the first offset of a time in some partitions, or their ends. A partition without a committed
    offset counts as committed at its start.
    """
    partitions = list(starts)
    if point.kind == "time":
        found = dict(at_time(partitions, point.value))
    else:
        base: Mapping[str, Callable[[TopicPartition], int]] = {
            "start": lambda partition: starts[partition],
            "end": lambda partition: ends[partition],
            "offset": lambda _: point.value,
            "after_start": lambda partition: min(starts[partition] + point.value, ends[partition]),
            "before_end": lambda partition: ends[partition] - point.value,
            "committed": lambda partition: (committed or {}).get(partition, starts[partition]),
            "shift": lambda partition: (committed or {}).get(partition, starts[partition]) + point.value,
        }
        found = {partition: base[point.kind](partition) for partition in partitions}
    return {partition: max(found[partition], starts[partition]) for partition in partitions}


def _point(word: str, whole: str) -> Point:
    if word in WORDS:
        return Point(WORDS[word])
    if re.fullmatch(r"[-+]?[0-9]+", word):
        kind = {"-": "before_end", "+": "after_start"}.get(word[0], "offset")
        return Point(kind, _in_int64(word.lstrip("+-"), f"{whole!r}: the largest offset is {MAX_INT64}"))
    raise argparse.ArgumentTypeError(f"{whole!r}: {WRITE}")


def _parse_times(text: str, now_ms: int) -> Range:
    found = _TIMES.fullmatch(text[1:])
    if not found or not (found["first"] or found["second"]):
        raise argparse.ArgumentTypeError(f"{text!r}: {WRITE_TIME} or @T1:T2")
    first_ms = _time(found["first"], now_ms, text) if found["first"] else None
    first = Point("start") if first_ms is None else Point("time", first_ms)
    second = found["second"]
    if second is None:
        return Range(first)
    if second == "end":
        return Range(first, Point("end"))
    if _PART.match(second):
        return Range(first, Point("time", min((first_ms or 0) + _span_ms(second), MAX_INT64)))
    return Range(first, Point("time", _time(second, now_ms, text)))


def _time(word: str, now_ms: int, whole: str) -> int:
    """Return a time in ms since 1970, at least 0."""
    return min(max(_any_time(word, now_ms, whole), 0), MAX_INT64)


def _any_time(word: str, now_ms: int, whole: str) -> int:
    if word == "now":
        return now_ms
    if re.fullmatch(r"[0-9]+", word):
        time = _in_int64(word, f"{whole!r}: there is no such time")
        return time * (1 if len(word) > MAX_DIGITS_OF_SECONDS or whole[0] != "@" else 1000)
    if re.fullmatch(_SPAN, word):
        return now_ms - _span_ms(word.lstrip("-"))
    try:
        moment = datetime.fromisoformat(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{whole!r}: there is no such time") from error
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _span_ms(text: str) -> int:
    return round(min(sum(float(number) * UNITS_MS[unit] for number, unit in _PART.findall(text)), MAX_INT64))


def _in_int64(digits: str, otherwise: str) -> int:
    """Return a number of any length; ArgumentTypeError with the message `otherwise` above MAX_INT64."""
    digits = digits.lstrip("0") or "0"
    if len(digits) > MAX_DIGITS or int(digits) > MAX_INT64:
        raise argparse.ArgumentTypeError(otherwise)
    return int(digits)
