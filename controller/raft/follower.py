"""How a node that does not lead gets the leader's log: by Fetch, one after the other, or by a snapshot, piece by piece.

    Fetch is answered with     and then
    batches                    they are appended; their end is what the next Fetch asks for
    a diverging epoch          the log is cut where it may part from the leader's (KIP-595), and compared again
    a snapshot id              that snapshot is read, and the log begins anew behind it (KIP-630)
    an error, or nothing       it is sent again after the back-off

A node that knows of no leader sends its Fetch to any voter, which is refused with the leader's name.

Batches come from another node: they are stored only if they are whole and undamaged, begin where the log ends, and are
of no epoch before that of the record in front of them nor after the leader's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controller.raft.messages import Request, SnapshotPart
from protocol.errors import DecodeError
from protocol.record_batch import crc_matches, iter_batches

if TYPE_CHECKING:
    from controller.raft.log import RaftLog, SnapshotId
    from protocol.primitives import Buffer


class Download(NamedTuple):
    """A snapshot that is being received, up to `position`."""

    snapshot: SnapshotId
    position: int


class Fetching:
    """What a node is fetching, and from whom."""

    def __init__(self, leader_id: int, now_ms: int) -> None:
        """Fetch from the leader, or from anybody if that is NOBODY."""
        self.leader_id = leader_id
        # Whether the leader itself was heard, and not taken for gone since; else another may stand for election.
        self.heard = False
        self.download: Download | None = None
        self._due_ms: int | None = now_ms
        self._sent: Request | None = None

    @property
    def due_ms(self) -> int | None:
        """Return when to send the next request; None while one is under way."""
        return self._due_ms

    def sent(self, request: Request) -> None:
        """Take note of a request on its way."""
        self._sent = request
        self._due_ms = None

    def ended(self, request: Request, due_ms: int) -> bool:
        """Take note of its end, and when to send the next; False if it is another's, of an earlier leader."""
        if self._sent is not request:
            return False
        self._sent = None
        self._due_ms = due_ms
        return True

    def again(self, due_ms: int) -> None:
        """Put the next request off."""
        self._due_ms = due_ms

    def received(self, position: int, data: Buffer, size: int) -> SnapshotPart | None:
        """Take the next part of the snapshot; None if it is another part, or does not bring the end any nearer."""
        download = self.download
        if download is None or position != download.position or not len(data) or position + len(data) > size:
            return None
        self.download = download._replace(position=position + len(data))
        return SnapshotPart(download.snapshot, position, data)


class Scanned(NamedTuple):
    """The batches that can be appended: how many bytes, and (epoch, next offset) of each; and what is wrong behind."""

    size_bytes: int
    batches: tuple[tuple[int, int], ...]
    problem: str = ""


def scan(data: Buffer, log: RaftLog, leader_epoch: int) -> Scanned:
    """Look through what a leader sent, as far as it continues `log`."""
    view = memoryview(data)
    next_offset, epoch, end = log.end_offset, log.end_epoch, 0
    batches: list[tuple[int, int]] = []
    try:
        for at, header in iter_batches(view):
            if header.base_offset != next_offset:
                raise DecodeError(f"a batch at offset {header.base_offset} where {next_offset} comes next")
            if not epoch <= header.partition_leader_epoch <= leader_epoch:
                raise DecodeError(f"the batch at offset {next_offset} is of epoch {header.partition_leader_epoch}")
            if not crc_matches(view[at : at + header.size_bytes], header):
                raise DecodeError(f"the batch at offset {next_offset} does not match its CRC-32C")
            if header.next_offset <= next_offset:
                raise DecodeError(f"the batch at offset {next_offset} has no records")
            next_offset, epoch, end = header.next_offset, header.partition_leader_epoch, at + header.size_bytes
            batches.append((epoch, next_offset))
    except DecodeError as error:
        return Scanned(end, tuple(batches), str(error))
    return Scanned(end, tuple(batches))
