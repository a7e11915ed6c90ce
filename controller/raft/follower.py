"""The roles of a node that fetches: follower or observer, and unattached.

Kafka: `FollowerState`, `UnattachedState`.

    response           effect at a follower
    batches            appended; the next Fetch starts at their end
    diverging epoch    the log is truncated to where it may diverge from the leader's (KIP-595), then compared again
    snapshot id        the snapshot is downloaded with FetchSnapshot; the log restarts at its end (KIP-630)
    error or timeout   the request is retried after the backoff

An unattached node sends Fetch to any voter; the error response names the leader.

Fetched batches are appended only if they are complete, match their CRC-32C, start at the log's end, and have an epoch
that is neither below that of the preceding record nor above the leader's. They are checked and decoded here, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controller.batches import decode_batch
from controller.raft.epoch_state import EpochState, Transition, earliest
from controller.raft.log import Entry, RaftEpochEnd, SnapshotId
from controller.raft.messages import ElectionState, OutboundRequest, ReceivedBatches, Role, SnapshotPart
from controller.raft.wire import FetchResult, FetchSnapshotResult, fetch_request, snapshot_request
from protocol.errors import DecodeError, InvariantError, KafkaError
from protocol.plural import count_of
from protocol.record_batch import BatchHeader, crc_matches, iter_batches

if TYPE_CHECKING:
    from controller.raft.local_replica import LocalReplica
    from controller.raft.log import RaftLog
    from controller.raft.messages import RaftRequest
    from controller.raft.wire import ResponseHeader
    from protocol.primitives import Buffer


class Fetcher:
    """The Fetch requests of a node: at most one is outstanding."""

    def __init__(self, due_ms: int | None) -> None:
        """Start with a request due; None for never."""
        self.due_ms = due_ms
        self._sent: OutboundRequest | None = None

    def is_due(self, now_ms: int) -> bool:
        """Return whether to send a request now."""
        return self.due_ms is not None and self.due_ms <= now_ms

    def sent(self, request: OutboundRequest) -> None:
        """Record `request` as outstanding."""
        self._sent = request
        self.due_ms = None

    def request_ended(self, request: OutboundRequest, due_ms: int) -> bool:
        """Record the end of `request` and schedule the next one; return False if it is not outstanding."""
        if self._sent is not request:
            return False
        self._sent = None
        self.due_ms = due_ms
        return True


class SnapshotDownload(NamedTuple):
    """A snapshot download; `position` bytes are received."""

    snapshot: SnapshotId
    position: int

    def part(self, position: int, data: Buffer, size: int) -> SnapshotPart | None:
        """Return the received part of the snapshot of `size` bytes; None if it is empty or not the next part."""
        if position != self.position or not len(data) or position + len(data) > size:
            return None
        return SnapshotPart(self.snapshot, position, data)


class _FetchingState(EpochState):
    """A node that fetches."""

    def __init__(
        self, replica: LocalReplica, election: ElectionState, deadline_ms: int | None, fetch_due_ms: int | None
    ) -> None:
        super().__init__(replica, election, deadline_ms)
        self.fetcher = Fetcher(fetch_due_ms)

    @property
    def due_ms(self) -> int | None:
        """Return when the deadline passes or a Fetch is due."""
        return earliest(self.deadline_ms, self.fetcher.due_ms)

    def request_ended(self, request: OutboundRequest) -> bool:
        """Record the end of a Fetch; the next one follows after the backoff."""
        return self.fetcher.request_ended(request, self._replica.now_ms + self._replica.timing.retry_backoff_ms)

    def _fetch_request(self) -> RaftRequest:
        replica = self._replica
        return fetch_request(replica.key, self.epoch, replica.log.end, replica.log.high_watermark, replica.timing)


class UnattachedState(_FetchingState):
    """A node without a known leader: a voter waits for an election, any node sends Fetch to find the leader."""

    role = Role.UNATTACHED

    def __init__(
        self, replica: LocalReplica, election: ElectionState, deadline_ms: int | None, fetch_due_ms: int
    ) -> None:
        super().__init__(replica, election, deadline_ms, fetch_due_ms if replica.other_voters else None)

    def send_due(self) -> None:
        """Send Fetch to any other voter."""
        if self.fetcher.is_due(self._replica.now_ms):
            others = self._replica.other_voters
            to = others[self._replica.jitter(len(others))]
            self.fetcher.sent(self._replica.send(to, self._fetch_request()))


class FollowerState(_FetchingState):
    """A node that fetches from the leader of its epoch."""

    def __init__(self, replica: LocalReplica, election: ElectionState) -> None:
        super().__init__(replica, election, None, replica.now_ms)
        # Set by a response or a BeginQuorumEpoch of the leader, cleared when it is suspected. While set, pre-votes of
        # other nodes are refused.
        self.has_leader_contact = False
        self.download: SnapshotDownload | None = None
        # A voter times out only if it may start an election; an observer then looks for another leader.
        if replica.may_campaign or not replica.is_voter:
            self.deadline_ms = replica.now_ms + replica.timing.fetch_timeout_ms

    @property
    def role(self) -> Role:
        """Return FOLLOWER or OBSERVER: the voters can change under a follower."""
        return Role.FOLLOWER if self._replica.is_voter else Role.OBSERVER

    @property
    def leader_id(self) -> int:
        """Return the leader that this node fetches from."""
        return self.election.leader_id

    def check_deadlines(self) -> Transition | None:
        """Return the transition that is due: an observer looks for another leader."""
        transition = super().check_deadlines()
        return transition if self._replica.is_voter or transition is None else Transition.FIND_LEADER

    def send_due(self) -> None:
        """Send Fetch or FetchSnapshot to the leader."""
        if self.fetcher.is_due(self._replica.now_ms):
            self.fetcher.sent(self._replica.send(self.leader_id, self._fetch_request()))

    def _fetch_request(self) -> RaftRequest:
        replica, download = self._replica, self.download
        if download is None:
            return super()._fetch_request()
        return snapshot_request(replica.key, self.epoch, download.snapshot, download.position, replica.timing)

    def leader_contacted(self) -> None:
        """Restart the fetch timeout."""
        self.has_leader_contact = True
        self._replica.lost_elections = 0
        if self.deadline_ms is not None:
            self.deadline_ms = self._replica.now_ms + self._replica.timing.fetch_timeout_ms

    def suspect_leader(self, deadline_ms: int | None = None) -> Transition | None:
        """Suspect the leader: a follower shortens its fetch timeout, an observer looks for another leader at once."""
        replica = self._replica
        if not replica.is_voter:
            return Transition.FIND_LEADER
        self.has_leader_contact = False
        if self.deadline_ms is not None:
            until_ms = replica.short_election_timeout() if deadline_ms is None else deadline_ms
            self.deadline_ms = min(self.deadline_ms, until_ms)
        return None

    def grants_pre_vote(self, candidate_id: int) -> bool:
        """Return False while the leader is live; the leader itself requests a pre-vote only after it has resigned."""
        return not self.has_leader_contact or candidate_id == self.leader_id

    def stop_campaigning(self) -> Transition | None:
        """Start no more elections; an observer goes on looking for leaders."""
        return super().stop_campaigning() if self._replica.is_voter else None

    def response_received(self, _request: OutboundRequest, response: ResponseHeader | None) -> Transition | None:
        """Process the leader's response."""
        if response is None or response.error:
            self.download = None
            return None if self._replica.is_voter else Transition.FIND_LEADER_AFTER_BACKOFF
        self.leader_contacted()
        partition, proceeds = response.partition, False
        if isinstance(partition, FetchResult):
            proceeds = self._handle_fetch_response(partition)
        elif isinstance(partition, FetchSnapshotResult):
            proceeds = self._handle_fetch_snapshot_response(partition)
        if proceeds:
            self.fetcher.due_ms = self._replica.now_ms
        return None

    def _handle_fetch_response(self, partition: FetchResult) -> bool:
        """Process a successful response; return False if the next request is to wait for the backoff."""
        replica, log = self._replica, self._replica.log
        snapshot = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        if snapshot.end_offset >= 0:
            if snapshot.end_offset < log.high_watermark:
                replica.warn(
                    "The leader's snapshot ends at offset %s, below the high watermark: %r", snapshot.end_offset, log
                )
                return False
            self.download = SnapshotDownload(snapshot, 0)
            return True
        if partition.diverging_epoch.end_offset >= 0:
            replica.truncate(RaftEpochEnd(partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset))
            return True
        return self._append(memoryview(partition.records or b""), partition.high_watermark)  # type: ignore[arg-type]

    def _append(self, data: memoryview, high_watermark: int) -> bool:
        replica = self._replica
        scanned = scan(data, replica.log, self.epoch)
        if scanned.received is not None:
            replica.append_received(scanned.received.entries)
            replica.pending.received = scanned.received
        if scanned.problem:
            replica.warn("Batches from the quorum's leader %s refused: %s", self.leader_id, scanned.problem)
            return False
        replica.log.commit(high_watermark)
        return True

    def _handle_fetch_snapshot_response(self, partition: FetchSnapshotResult) -> bool:
        """Append a part of the snapshot; return as `_handle_fetch_response`."""
        download, self.download = self.download, None
        data = memoryview(partition.unaligned_records or b"")  # type: ignore[arg-type]
        part = None if download is None else download.part(partition.position, data, partition.size)
        if part is None:
            return False
        self._replica.pending.snapshot_parts.append(part)
        position = part.position + len(part.data)
        if position < partition.size:
            self.download = SnapshotDownload(part.snapshot, position)
        else:
            self._replica.reset_to_snapshot(part.snapshot)
        return True


class Scanned(NamedTuple):
    """The valid batches at the start of fetched data (None: no valid batch), and the problem after them."""

    received: ReceivedBatches | None
    problem: str = ""


def scan(data: Buffer, log: RaftLog, leader_epoch: int) -> Scanned:
    """Check and decode the batches that a leader sent, up to the first that does not continue `log`.

    InvariantError if an undamaged batch cannot be decoded: this node could neither apply it nor lead with it.
    """
    view = memoryview(data)
    next_offset, epoch, end, problem = log.end_offset, log.end_epoch, 0, ""
    headers: list[BatchHeader] = []
    entries: list[Entry] = []
    try:
        for at, header in iter_batches(view):
            if header.base_offset != next_offset:
                raise DecodeError(f"a batch at offset {header.base_offset} where {next_offset} is expected")
            if not epoch <= header.partition_leader_epoch <= leader_epoch:
                raise DecodeError(f"the batch at offset {next_offset} is of epoch {header.partition_leader_epoch}")
            batch = view[at : at + header.size_bytes]
            if not crc_matches(batch, header):
                raise DecodeError(f"the batch at offset {next_offset} does not match its CRC-32C")
            if header.next_offset <= next_offset:
                raise DecodeError(f"the batch at offset {next_offset} has no records")
            entries.append(_decode(batch, header, leader_epoch))
            headers.append(header)
            next_offset, epoch, end = header.next_offset, header.partition_leader_epoch, at + header.size_bytes
    except DecodeError as error:
        problem = str(error)
    received = ReceivedBatches(view[:end], tuple(headers), tuple(entries)) if entries else None
    return Scanned(received, problem)


def _decode(batch: memoryview, header: BatchHeader, leader_epoch: int) -> Entry:
    try:
        entry = decode_batch(batch, header)
    except (DecodeError, KafkaError) as error:
        raise InvariantError(f"batches of the leader of epoch {leader_epoch} cannot be decoded: {error}") from error
    if entry.next_offset != header.next_offset:
        raise InvariantError(
            f"{count_of(len(entry.records), 'record')} received from the leader of epoch {leader_epoch} in a batch from"
            f" {header.base_offset} to {header.next_offset}"
        )
    return entry
