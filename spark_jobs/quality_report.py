"""The quality of a topic, from the summaries of its windows: shares, drift of the schema, and what to look at. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

from spark_jobs.wording import counted

NULL_TYPE = "null"


class Named(NamedTuple):
    """How often a key or a partition was in a window."""

    name: str | None
    records: int


class FieldCount(NamedTuple):
    """How often a field had a JSON type in a window."""

    name: str
    type: str
    records: int


@dataclass(frozen=True)
class WindowQuality:
    """The summary of a topic's window. Times are ISO 8601 in JSON, delays in seconds, None without any.

    Args:
        topic: The topic.
        start: The begin of the window.
        end: Its end.
        records: The number of records, of which
        nulls: have a null value,
        malformed: have a value that is not a JSON object.
        bytes: The bytes of keys and values.
        keys: The number of different keys.
        null_keys: The number of records without a key.
        top_keys: The most frequent keys.
        partitions: The records of each partition.
        identified: The number of records with an identity.
        identities: The number of different identities.
        fields: How often each field had each type.
        mean_delay_s: How much later than the event the record's timestamp is, in the mean.
        longest_delay_s: The longest delay.
        oldest: The earliest timestamp.
        newest: The latest timestamp.

    """

    topic: str
    start: datetime
    end: datetime
    records: int
    nulls: int = 0
    malformed: int = 0
    bytes: int = 0
    keys: int = 0
    null_keys: int = 0
    top_keys: tuple[Named, ...] = ()
    partitions: tuple[Named, ...] = ()
    identified: int = 0
    identities: int = 0
    fields: tuple[FieldCount, ...] = ()
    mean_delay_s: float | None = None
    longest_delay_s: float | None = None
    oldest: datetime | None = None
    newest: datetime | None = None

    @classmethod
    def parse(cls, text: str) -> WindowQuality:
        """Return the window of a line of JSON."""
        found = json.loads(text)
        for name in ("start", "end", "oldest", "newest"):
            if found.get(name) is not None:
                found[name] = datetime.fromisoformat(found[name])
        for name in ("top_keys", "partitions"):
            found[name] = tuple(Named(one.get("name"), one["records"]) for one in found.get(name, ()))
        found["fields"] = tuple(FieldCount(one["name"], one["type"], one["records"]) for one in found.get("fields", ()))
        return cls(**found)

    def text(self) -> str:
        """Return the window as a line of JSON."""
        found: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in found.items():
            if isinstance(value, datetime):
                found[name] = value.isoformat()
            elif isinstance(value, tuple):
                found[name] = [one._asdict() for one in value]
        return json.dumps({name: value for name, value in found.items() if value is not None})

    @property
    def objects(self) -> int:
        """The number of records whose value is a JSON object."""
        return self.records - self.nulls - self.malformed

    @property
    def duplicates(self) -> int:
        """The number of records whose identity another record of the window has had before."""
        return self.identified - self.identities

    @property
    def present(self) -> Mapping[str, int]:
        """How often each field was there, and not null."""
        counts: Counter[str] = Counter()
        for one in self.fields:
            counts[one.name] += 0 if one.type == NULL_TYPE else one.records
        return counts

    def completeness(self, field: str) -> float | None:
        """Return the share of JSON objects in which a field is there and not null, None without objects."""
        return self.present.get(field, 0) / self.objects if self.objects else None

    @property
    def largest_key_share(self) -> float | None:
        """The share of the most frequent key in the records with a key, None without keys."""
        named = [one.records for one in self.top_keys if one.name is not None]
        keyed = self.records - self.null_keys
        return max(named) / keyed if named and keyed else None


class Drift(NamedTuple):
    """A change of a topic's schema: in which window a field appears, is missing from then on, or has a new type."""

    start: datetime
    field: str
    change: str


class FieldQuality(NamedTuple):
    """A field over all windows: `types` from the most to the least frequent, with their shares."""

    name: str
    completeness: float
    types: tuple[tuple[str, float], ...]
    first: datetime
    last: datetime


class TopicQuality:
    """The windows of a topic, in their order."""

    def __init__(self, windows: Iterable[WindowQuality], last: int | None = None) -> None:
        """Take the windows, in any order; with `last`, only so many of the latest."""
        self.windows = sorted(windows, key=lambda one: one.start)[-last if last else None :]
        self.topic = self.windows[0].topic
        self.records = sum(one.records for one in self.windows)
        self.objects = sum(one.objects for one in self.windows)
        self.nulls = sum(one.nulls for one in self.windows)
        self.malformed = sum(one.malformed for one in self.windows)
        self.bytes = sum(one.bytes for one in self.windows)
        self.identified = sum(one.identified for one in self.windows)
        self.duplicates = sum(one.duplicates for one in self.windows)

    @property
    def newest(self) -> datetime:
        """The latest timestamp."""
        return max(one.newest or one.start for one in self.windows)

    @property
    def empty_windows(self) -> int:
        """The number of windows without records between the first and the last."""
        length = self.windows[0].end - self.windows[0].start
        return (self.windows[-1].start - self.windows[0].start) // length + 1 - len(self.windows)

    @property
    def completeness(self) -> float | None:
        """The mean completeness of the fields, None without objects."""
        found = [one.completeness for one in self.fields()]
        return sum(found) / len(found) if found else None

    @property
    def uniqueness(self) -> float | None:
        """The share of records with an identity that no earlier one of their window has, None without identities."""
        return 1 - self.duplicates / self.identified if self.identified else None

    @property
    def longest_delay_s(self) -> float | None:
        """The longest delay, None without event times."""
        return max((one.longest_delay_s for one in self.windows if one.longest_delay_s is not None), default=None)

    def partitions(self) -> list[Named]:
        """Return the records of each partition, in the order of their numbers."""
        counts: Counter[str] = Counter()
        for window in self.windows:
            counts.update({one.name or "": one.records for one in window.partitions})
        return [Named(name, counts[name]) for name in sorted(counts, key=lambda name: (len(name), name))]

    def partition_skew(self) -> float:
        """Return how many times as large as the mean the largest partition is, of those with records."""
        counts = [one.records for one in self.partitions()]
        return max(counts) * len(counts) / sum(counts) if counts else 1.0

    def top_keys(self, number: int) -> list[Named]:
        """Return the most frequent keys, as far as they are among the most frequent ones of their windows."""
        counts: Counter[str] = Counter()
        for window in self.windows:
            counts.update({one.name: one.records for one in window.top_keys if one.name is not None})
        return [
            Named(name, count) for name, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:number]
        ]

    def fields(self) -> list[FieldQuality]:
        """Return the fields in the order in which they appear, those of a window by name."""
        counts: dict[str, Counter[str]] = {}
        seen: dict[str, list[datetime]] = {}
        for window in self.windows:
            for one in window.fields:
                counts.setdefault(one.name, Counter())[one.type] += one.records
                seen.setdefault(one.name, []).append(window.start)
        return [
            FieldQuality(
                name,
                (types.total() - types[NULL_TYPE]) / self.objects,
                tuple((kind, count / types.total()) for kind, count in types.most_common()),
                seen[name][0],
                seen[name][-1],
            )
            for name, types in counts.items()
        ]

    def drift(self) -> list[Drift]:
        """Return the changes of the schema after the first window with objects.

        A field that is absent in some windows only does not count as missing.
        """
        windows = [one for one in self.windows if one.objects]
        found = []
        types: dict[str, set[str]] = {}
        last: dict[str, int] = {}
        for at, window in enumerate(windows):
            for name, counts in groupby(window.fields, key=lambda one: one.name):
                now = {one.type for one in counts} - {NULL_TYPE}
                if name not in types and at:
                    found.append(Drift(window.start, name, f"appears as {_listed(now) or NULL_TYPE}"))
                elif known := types.get(name):
                    found += [
                        Drift(window.start, name, f"{_listed(known)} becomes {new}") for new in sorted(now - known)
                    ]
                types.setdefault(name, set()).update(now)
                last[name] = at
        found += [
            Drift(windows[at + 1].start, name, "is missing") for name, at in last.items() if at + 1 < len(windows)
        ]
        return sorted(found)


def by_topic(windows: Sequence[WindowQuality], last: int | None = None) -> list[TopicQuality]:
    """Return the topics by name, with all or the `last` of their windows."""
    ordered = sorted(windows, key=lambda one: one.topic)
    return [TopicQuality(group, last) for _, group in groupby(ordered, key=lambda one: one.topic)]


def age(length: timedelta) -> str:
    """Return a length of time in its largest unit, such as `3 hours`."""
    total = max(0, int(length.total_seconds()))
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if total >= size:
            return counted(total // size, unit)
    return f"{total} s"


def _listed(names: Iterable[str]) -> str:
    return " or ".join(sorted(names))
