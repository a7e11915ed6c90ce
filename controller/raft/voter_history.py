"""The voters and the level of kraft.version, by offset of the log (KIP-853; Kafka: `VoterSetHistory`).

A VotersRecord or KRaftVersionRecord counts from its append on, committed or not: the current value is the latest below
the log end, so a truncation brings back the value before the removed record. A snapshot has the values at its end.
Before any record, the voters are the static ones: those of controller.quorum.voters, or the first voter alone.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

from controller.raft.voters import VoterSet
from protocol.records.control import KRaftVersionRecord, VotersRecord
from protocol.schema import Message

T = TypeVar("T")


class OffsetHistory(Generic[T]):
    """Values by the offset of the record that set them (Kafka: `LogHistory`)."""

    def __init__(self, first: T) -> None:
        """Start with the value before offset 0."""
        self._values = [(-1, first)]

    @property
    def latest(self) -> T:
        """Return the current value."""
        return self._values[-1][1]

    @property
    def latest_offset(self) -> int:
        """Return the offset that set the current value; -1 if none did."""
        return self._values[-1][0]

    def before(self, end_offset: int) -> T:
        """Return the value that the records below `end_offset` result in."""
        return next((value for offset, value in reversed(self._values) if offset < end_offset), self._values[0][1])

    def add(self, offset: int, value: T) -> None:
        """Add the value that the newest record, at `offset`, sets."""
        self._values.append((offset, value))

    def truncate(self, end_offset: int) -> None:
        """Remove the values from `end_offset` on."""
        while self.latest_offset >= max(0, end_offset):
            self._values.pop()

    def restart(self, end_offset: int, value: T) -> None:
        """Replace everything below `end_offset` by the `value` of a snapshot that ends there."""
        self._values = [(end_offset - 1, value), *(later for later in self._values if later[0] >= end_offset)]


class VoterHistory:
    """The voter sets and the levels of kraft.version of one log."""

    def __init__(self, static: VoterSet, kraft_version: int = 0) -> None:
        """Start with the voters and the level that count until the log has others."""
        self._static = static
        self._voters = OffsetHistory(static)
        self._kraft_versions = OffsetHistory(kraft_version)

    @property
    def voters(self) -> VoterSet:
        """Return the voters at the log end."""
        return self._voters.latest

    @property
    def kraft_version(self) -> int:
        """Return the level of kraft.version at the log end: from 1 on, voters can change."""
        return self._kraft_versions.latest

    @property
    def is_in_log(self) -> bool:
        """Return whether a record of the log, or its snapshot, has the voters."""
        return self._voters.latest_offset >= 0

    def snapshot_voters(self, end_offset: int) -> VoterSet | None:
        """Return the voters that a snapshot of the log up to `end_offset` has; None at kraft.version 0."""
        return self._voters.before(end_offset) if self._kraft_versions.before(end_offset) > 0 else None

    def append(self, base_offset: int, records: Iterable[Message]) -> None:
        """Add what the records of an appended control batch set."""
        for offset, record in enumerate(records, base_offset):
            if isinstance(record, VotersRecord):
                self._voters.add(offset, VoterSet.from_record(record))
            elif isinstance(record, KRaftVersionRecord):
                self._kraft_versions.add(offset, record.kraft_version)

    def truncate(self, end_offset: int) -> None:
        """Return to the values below `end_offset`, to which the log was truncated."""
        self._voters.truncate(end_offset)
        self._kraft_versions.truncate(end_offset)

    def load_snapshot(self, end_offset: int, voters: VoterSet | None, kraft_version: int) -> None:
        """Replace what is below `end_offset` by the contents of a snapshot, which has no voters at kraft.version 0."""
        self._voters.restart(end_offset, voters or self._static)
        self._kraft_versions.restart(end_offset, kraft_version)
