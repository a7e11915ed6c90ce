"""What producers and consumers did and were told, in the order of its happening: one JSON object a line.

Every value is sent once, so that it names its record. Partitions are written `topic-0`. Consumers read committed
records. What a time-out leaves open is `Unknown`, and nothing is concluded from it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

Records = list[tuple[int, str]]
"""Offsets and values, as they were read."""


class Run(NamedTuple):
    """What was tried, by which the run can be repeated."""

    facts: dict[str, Any]


class Fault(NamedTuple):
    """What was done to the cluster: for the reader of a history, not for the checker."""

    what: str
    at_s: float


class Producer(NamedTuple):
    """Who sends; an idempotent one's records are there once and in their order."""

    process: str
    idempotent: bool


class Send(NamedTuple):
    """A record is handed to a producer."""

    process: str
    partition: str
    value: str
    transaction: str = ""


class Acknowledged(NamedTuple):
    """The record is there; at offset -1 it is not said where."""

    process: str
    partition: str
    value: str
    offset: int


class Unknown(NamedTuple):
    """The record may be there, or come to be there."""

    process: str
    value: str


class Failed(NamedTuple):
    """The record is not there, and never will be."""

    process: str
    value: str


class Commit(NamedTuple):
    """A transaction is asked to be committed; nobody may read its records before."""

    process: str
    transaction: str


class Abort(NamedTuple):
    """A transaction is asked to be aborted; nobody may ever read its records."""

    process: str
    transaction: str


class Assigned(NamedTuple):
    """A consumer's assignment is another from here on."""

    process: str
    group: str
    partitions: list[str]


class Polled(NamedTuple):
    """A consumer was given records of a partition, in this order."""

    process: str
    group: str
    partition: str
    records: Records


class ReadBack(NamedTuple):
    """All that is in a partition after the run; `complete` says whether its end was reached."""

    partition: str
    records: Records
    complete: bool


Event = Run | Fault | Producer | Send | Acknowledged | Unknown | Failed | Commit | Abort | Assigned | Polled | ReadBack
KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        *(Run, Fault, Producer, Send, Acknowledged, Unknown, Failed),
        *(Commit, Abort, Assigned, Polled, ReadBack),
    )
}


def write(event: Event, to: TextIO) -> None:
    """Write one line."""
    to.write(json.dumps({"event": type(event).__name__} | event._asdict()) + "\n")


def read(lines: Iterable[str]) -> Iterator[Event]:
    """Yield the events of lines; ValueError for a line that holds none, unless it is the last and was cut short."""
    iterator = iter(enumerate(lines, 1))
    for number, line in iterator:
        try:
            fields = json.loads(line)
            yield KINDS[fields.pop("event")](**fields)
        except (KeyError, TypeError, ValueError) as error:
            if not line.endswith("\n") and next(iterator, None) is None:
                return
            raise ValueError(f"line {number}: {line[:80]!r} is no event: {error}") from error


class Recorder:
    """Writes a history that many threads tell of."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("w")
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        with self._lock:
            write(event, self._file)

    def close(self) -> None:
        self._file.close()
