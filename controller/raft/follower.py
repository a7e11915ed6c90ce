"""The follower's side of replication: Fetch, snapshot downloads, and checks of fetched batches.

    response           effect
    batches            appended; the next Fetch starts at their end
    diverging epoch    the log is truncated to where it may diverge from the leader's (KIP-595), then compared again
    snapshot id        the snapshot is downloaded with FetchSnapshot; the log restarts at its end (KIP-630)
    error, or none     the request is retried after the backoff

A node without a known leader sends Fetch to any voter; the error response names the leader.

Fetched batches are appended only if they are complete, match their CRC-32C, start at the log's end, and have an epoch
that is neither below that of the preceding record nor above the leader's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controller.raft.messages import OutboundRequest, SnapshotPart
from protocol.errors import DecodeError
from protocol.record_batch import crc_matches, iter_batches

if TYPE_CHECKING:
    from controller.raft.log import RaftLog, SnapshotId
    from protocol.primitives import Buffer


class SnapshotDownload(NamedTuple):
    """A snapshot download; `position` bytes are received."""

    snapshot: SnapshotId
    position: int


class FollowerState:
    """The fetch state of a node that does not lead: its leader, the outstanding request, and the snapshot download."""

    def __init__(self, leader_id: int, now_ms: int) -> None:
        """Fetch from `leader_id`; NOBODY stands for any voter."""
        self.leader_id = leader_id
        # Set by a response or a BeginQuorumEpoch of the leader, cleared when it is suspected. While set, pre-votes of
        # other nodes are refused.
        self.heard = False
        self.download: SnapshotDownload | None = None
        self._due_ms: int | None = now_ms
        self._sent: OutboundRequest | None = None

    @property
    def due_ms(self) -> int | None:
        """Return when to send the next request; None while one is outstanding."""
        return self._due_ms

    def sent(self, request: OutboundRequest) -> None:
        """Record `request` as outstanding."""
        self._sent = request
        self._due_ms = None

    def ended(self, request: OutboundRequest, due_ms: int) -> bool:
        """Record the end of `request` and schedule the next one; return False if it was sent for an earlier leader."""
        if self._sent is not request:
            return False
        self._sent = None
        self._due_ms = due_ms
        return True

    def again(self, due_ms: int) -> None:
        """Schedule the next request."""
        self._due_ms = due_ms

    def received(self, position: int, data: Buffer, size: int) -> SnapshotPart | None:
        """Advance the download and return the received part; None if it is empty or does not continue the download."""
        download = self.download
        if download is None or position != download.position or not len(data) or position + len(data) > size:
            return None
        self.download = download._replace(position=position + len(data))
        return SnapshotPart(download.snapshot, position, data)


class Scanned(NamedTuple):
    """The valid prefix of fetched data: its size, (epoch, next offset) of each batch, and the problem behind it."""

    size_bytes: int
    batches: tuple[tuple[int, int], ...]
    problem: str = ""


def scan(data: Buffer, log: RaftLog, leader_epoch: int) -> Scanned:
    """Check the batches that a leader sent, up to the first that does not continue `log`."""
    view = memoryview(data)
    next_offset, epoch, end = log.end_offset, log.end_epoch, 0
    batches: list[tuple[int, int]] = []
    try:
        for at, header in iter_batches(view):
            if header.base_offset != next_offset:
                raise DecodeError(f"a batch at offset {header.base_offset} where {next_offset} is expected")
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
