"""What goes into a `RaftNode` and what comes out of it: events, and one Ready at a time.

    node.step(event, now_ms)      tell what happened; by `node.due_ms` at the latest, that is a Tick
    node.propose(records)         as the leader: append records
    node.snapshotted(id, start)   there is a newer snapshot, and the log may begin later than it did
    node.resign(now_ms)           lead no more, and stand for no election any more: before a clean stop
    node.ready() -> Ready | None  what is to be done now
    node.advance(ready)           all of it is done

In, the driver's duties:

    Tick            when `due_ms` is reached; more often does no harm
    Asked           another node sent a request; one Answer carries its token back, perhaps much later
    Answered        exactly one for each Request: with its response, or None if the connection was lost or it took
                    longer than `Timing.request_timeout_ms`
    Disconnected    a node's connections are lost and did not come back within the grace that it is given

Out, a Ready is performed in the order of this list, each step complete before the next one begins:

    quorum_state    replace the stored one, durably
    truncate_to     cut the log's end off
    snapshot_parts  write each at its position to the file of the snapshot that is being received
    begin_behind    that file is whole: check it, make it durable and a snapshot like others, drop the whole log and
                    begin it anew at the snapshot's end, and load the image from it
    entries         append them to the log, durably                  (a leader's own)
    received        append these batches to the log, durably         (a follower's; never together with entries)
    requests        send each to its node
    answers         send each to who holds the token, with what it asks to read filled in
    high_watermark  apply every entry below it

A Ready that is being performed does not keep events waiting: what follows from them goes into the next. Answers to
Fetch, and they alone, may leave as soon as the entries are appended: a leader counts its own copy when it is synced,
and its followers theirs.

Times are in ms of one monotonic clock, which no other node shares.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from controller.raft.voters import NO_DIRECTORY

if TYPE_CHECKING:
    from controller.raft.log import Entry, SnapshotId
    from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
    from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
    from protocol.messages.fetch import FetchRequest
    from protocol.messages.fetch_snapshot import FetchSnapshotRequest
    from protocol.messages.vote import VoteRequest
    from protocol.primitives import Buffer
    from protocol.schema import Message

RaftRequest: TypeAlias = (
    "VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest | FetchRequest | FetchSnapshotRequest"
)
NOBODY = -1


class Role(Enum):
    """What a node is in its current epoch."""

    UNATTACHED = "unattached"
    """Knows of no leader."""
    PROSPECTIVE = "prospective"
    """Asks whether it would be elected, in no new epoch yet (KIP-996)."""
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    OBSERVER = "observer"
    """Follows without a vote."""
    RESIGNED = "resigned"
    """Led this epoch and does so no more."""


class Timing(NamedTuple):
    """How long a node waits for what."""

    election_timeout_ms: int = 1000
    """How long a candidate waits for votes, up to twice as long at random (controller.quorum.election.timeout.ms)."""
    fetch_timeout_ms: int = 2000
    """How long a leader may be silent; 1.5 times that, its followers (controller.quorum.fetch.timeout.ms)."""
    election_backoff_max_ms: int = 1000
    """How long who lost an election waits at most (controller.quorum.election.backoff.max.ms)."""
    request_timeout_ms: int = 2000
    """How long an answer may take (controller.quorum.request.timeout.ms)."""
    retry_backoff_ms: int = 20
    """How long to wait before a request that failed is sent again (controller.quorum.retry.backoff.ms)."""
    fetch_max_wait_ms: int = 500
    """How long the leader may hold a Fetch that finds nothing new."""
    fetch_max_bytes: int = 1 << 20
    """How much a Fetch asks for (controller.quorum.fetch.max.bytes)."""
    fetch_snapshot_max_bytes: int = 1 << 20
    """How much a FetchSnapshot asks for (controller.quorum.fetch.snapshot.max.bytes)."""


class QuorumState(NamedTuple):
    """What a voter must never forget: its epoch, and whom it follows or voted for in it."""

    epoch: int = 0
    leader_id: int = NOBODY
    voted_id: int = NOBODY
    voted_directory_id: bytes = NO_DIRECTORY


class Tick(NamedTuple):
    """Time has passed."""


class Asked(NamedTuple):
    """Another node asks: Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch or FetchSnapshot."""

    token: object
    """Comes back in the Answer; none of the node's business."""
    request: RaftRequest


class Request(NamedTuple):
    """A request to another node; to be told apart from others by identity."""

    to: int
    message: Message


class Answered(NamedTuple):
    """A Request came to its end: with a response, or with none."""

    request: Request
    response: Message | None


class Disconnected(NamedTuple):
    """A node is taken for gone."""

    node_id: int


Event: TypeAlias = Tick | Asked | Answered | Disconnected


class LogRead(NamedTuple):
    """Whole batches of the log from `offset` on, up to its end: at least one, else no more than `max_bytes`.

    They go into the `records` of the response's only partition.
    """

    offset: int
    max_bytes: int


class SnapshotRead(NamedTuple):
    """Bytes of a snapshot's file, at most `max_bytes` from `position` on.

    They go into `unaligned_records` of the response's only partition, and the file's size into `size`. Instead, its
    error code is SNAPSHOT_NOT_FOUND if the file is gone, POSITION_OUT_OF_RANGE if it ends before `position`.
    """

    snapshot: SnapshotId
    position: int
    max_bytes: int


class Answer(NamedTuple):
    """The response to who asked; `read` is what is to be filled in first."""

    token: object
    response: Message
    read: LogRead | SnapshotRead | None = None


class SnapshotPart(NamedTuple):
    """Bytes of a snapshot that is being received; at position 0 a new file begins."""

    snapshot: SnapshotId
    position: int
    data: Buffer


class Received(NamedTuple):
    """Whole batches, undamaged and one behind the other, that begin where the log ends."""

    base_offset: int
    next_offset: int
    epoch: int
    """Of the leader; no batch is of a later one."""
    batches: Buffer


class Ready(NamedTuple):
    """What is to be done, see the module's documentation; None or nothing where there is nothing to do."""

    quorum_state: QuorumState | None
    entries: tuple[Entry, ...]
    high_watermark: int
    truncate_to: int | None = None
    snapshot_parts: tuple[SnapshotPart, ...] = ()
    begin_behind: SnapshotId | None = None
    received: Received | None = None
    requests: tuple[Request, ...] = ()
    answers: tuple[Answer, ...] = ()
    warnings: tuple[str, ...] = ()
    """What an operator should be told: something is wrong that the node cannot mend."""


class Replica(NamedTuple):
    """How far somebody has copied the leader's log; ages in ms, None where nothing is known yet."""

    node_id: int
    directory_id: bytes
    end_offset: int
    last_fetch_age_ms: int | None
    """Since it fetched."""
    caught_up_age_ms: int | None
    """Since it had all that the leader had."""


class Quorum(NamedTuple):
    """What the leader knows of its quorum; it is among the voters."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...] = ()
