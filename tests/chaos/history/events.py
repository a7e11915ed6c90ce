"""The operations of producers and consumers and their results, in order: one JSON object per line.

Every value is sent once, so it identifies its record. Partitions are written `topic-0`. Consumers read committed
records. A send that times out is `Unknown`; the checker draws no conclusion from it. A transaction with a `Commit` and
neither `Committed` nor `Abort` is ambiguous: it may be committed or not, but only as a whole.
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
    """The parameters of a run, with which it can be repeated."""

    facts: dict[str, Any]


class Fault(NamedTuple):
    """An injected fault: for the reader of a history, not for the checker."""

    what: str
    at_s: float


class Producer(NamedTuple):
    """A producer; the records of an idempotent one are stored once and in order."""

    process: str
    idempotent: bool


class Send(NamedTuple):
    """A record is passed to a producer; `source` is the value of the record from which a pipeline made it."""

    process: str
    partition: str
    value: str
    transaction: str = ""
    source: str = ""


class Acknowledged(NamedTuple):
    """The record is stored; offset -1: the client does not know its offset."""

    process: str
    partition: str
    value: str
    offset: int


class Unknown(NamedTuple):
    """The record may be stored now or later."""

    process: str
    value: str


class Failed(NamedTuple):
    """The record is not stored, and never will be."""

    process: str
    value: str


class Commit(NamedTuple):
    """Commit of a transaction is requested; its records must not be read before."""

    process: str
    transaction: str


class Committed(NamedTuple):
    """The commit of a transaction succeeded; its records must be stored."""

    process: str
    transaction: str


class Abort(NamedTuple):
    """A transaction is never committed; its records must never be read.

    Its abort was requested and no commit before, or its abort succeeded, or its producer was fenced before it
    requested a commit.
    """

    process: str
    transaction: str


class Assigned(NamedTuple):
    """A consumer's assignment changes here, or the application changes its position."""

    process: str
    group: str
    partitions: list[str]


class Polled(NamedTuple):
    """A consumer received records of a partition, in this order.

    `group`: empty for a consumer without a group. `transaction`: the one that the process had open.
    """

    process: str
    group: str
    partition: str
    records: Records
    transaction: str = ""


class ReadBack(NamedTuple):
    """All records of a partition after the run; `complete`: the read reached the end."""

    partition: str
    records: Records
    complete: bool


class Offsets(NamedTuple):
    """The committed offsets of a pipeline's group after the run, by partition."""

    group: str
    offsets: dict[str, int]


Event = (
    Run
    | Fault
    | Producer
    | Send
    | Acknowledged
    | Unknown
    | Failed
    | Commit
    | Committed
    | Abort
    | Assigned
    | Polled
    | ReadBack
    | Offsets
)
KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        *(Run, Fault, Producer, Send, Acknowledged, Unknown, Failed),
        *(Commit, Committed, Abort, Assigned, Polled, ReadBack, Offsets),
    )
}


def write(event: Event, to: TextIO) -> None:
    """Write one line."""
    to.write(json.dumps({"event": type(event).__name__} | event._asdict()) + "\n")


def read(lines: Iterable[str]) -> Iterator[Event]:
    """Yield the events of lines; raise ValueError for an invalid line, except a truncated last one."""
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
    """Writes a history; several threads may record events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("w")
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        with self._lock:
            write(event, self._file)

    def close(self) -> None:
        self._file.close()
