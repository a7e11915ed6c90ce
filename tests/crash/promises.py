"""The promises of a workload's logs: the records that must survive a power cut, and those that may.

A *version* is a log that only grows; every other change of it (truncation, compaction, deletion of the topic) makes
another version. A power cut may leave any version since the last completed flush of the whole log, up to any of its
batches; but every batch that a completed flush covered and that was not deleted or truncated since must survive.
Changes between two marks of a trace may or may not have happened: `either` joins the promises at both.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.record_batch import BatchHeader, read_header


class Stored(NamedTuple):
    """A batch as stored in a log."""

    base_offset: int
    next_offset: int
    data: bytes

    @property
    def header(self) -> BatchHeader:
        return read_header(self.data)


class Version:
    """A log's batches, oldest first: `batches` are the present ones, `written` all that were ever appended."""

    __slots__ = ("batches", "numbers", "origin", "written")

    def __init__(self, origin: int, batches: list[Stored], written: list[Stored] | None = None) -> None:
        """Create a version whose first offset, while it is empty, is `origin`."""
        self.origin = origin
        self.batches = batches
        self.numbers = {batch.base_offset: number for number, batch in enumerate(batches)}
        self.written = batches if written is None else written

    def append(self, batch: Stored) -> None:
        self.numbers[batch.base_offset] = len(self.batches)
        self.batches.append(batch)
        if self.written is not self.batches:
            self.written.append(batch)

    @property
    def end_offset(self) -> int:
        return self.written[-1].next_offset if self.written else self.origin


class Promise(NamedTuple):
    """The promise of one log."""

    versions: tuple[Version, ...] = ()
    lengths: tuple[int, ...] = ()
    durable_end: int = 0
    start: int = 0
    exists: bool = False
    """Whether the log must exist."""
    cleaned: int = 0
    """End of the range that compaction may have changed; `history.py` has the rules below it."""
    decided: int = 0
    """End of the committed range that compaction relied on, such as the marker of a transaction that it removed."""

    def required(self) -> list[Stored]:
        """Return the batches that must survive."""
        if not self.exists:
            return []
        newest, length = self.versions[-1], self.lengths[-1]
        return [
            batch
            for batch in newest.batches[:length]
            if batch.next_offset <= self.durable_end and batch.next_offset > self.start
            if batch.base_offset >= self.cleaned
        ]


NOTHING = Promise()


def either(before: Promise, after: Promise) -> Promise:
    """Return the promise between two marks."""
    lengths = dict(zip(before.versions, before.lengths, strict=True))
    for version, length in zip(after.versions, after.lengths, strict=True):
        lengths[version] = max(length, lengths.get(version, 0))
    newest = after.versions[-1:]
    versions = (*(version for version in lengths if version not in newest), *newest)
    return Promise(
        versions,
        tuple(lengths[version] for version in versions),
        min(before.durable_end, after.durable_end),
        max(before.start, after.start),
        before.exists and after.exists,
        max(before.cleaned, after.cleaned),
        max(before.decided, after.decided),
    )


def promised(before: dict[str, Promise], after: dict[str, Promise]) -> dict[str, Promise]:
    """Return the promise of each log between two marks."""
    return {name: either(before.get(name, NOTHING), after.get(name, NOTHING)) for name in {**before, **after}}
