"""The interface of a `RaftNode`: the events that go in and the Ready that comes out.

    node.step(event, now_ms)      process an event; a Tick by `node.due_ms` at the latest
    node.propose(records)         leader: append records
    node.snapshot_taken(id, start)   there is a newer snapshot; the log may start later
    node.resign(now_ms)           before a controlled stop: give up leadership, start no more elections
    node.ready() -> Ready | None  the next actions
    node.advance(ready)           all of them are performed

Events that the driver passes in:

    Tick              when `due_ms` is reached; more often does no harm
    RequestReceived   another node sent a request; exactly one Response carries its token, possibly much later
    ResponseReceived  exactly one for each OutboundRequest: with its response, or None if the connection was lost or
                      `Timing.request_timeout_ms` has passed
    Disconnected      all connections of a node are lost and none came back within its grace

The driver performs a Ready in this order, each step complete before the next one starts:

    election_state     replace the stored one, durably
    truncate_to        truncate the log
    snapshot_parts     write each at its position to the file of the snapshot download
    reset_to_snapshot  that file is complete: check it, make it durable and a regular snapshot, delete the whole log and
                       restart it at the snapshot's end, load the image from the snapshot, and call `snapshot_loaded`
    entries            append them to the log, durably                  (a leader's own)
    received           append these batches to the log, durably         (a follower's; never together with entries)
    requests           send each to its node
    responses          send each to the holder of its token, with its `read` filled in
    high_watermark     apply every entry below it

Events are processed while a Ready is performed; their effects go into the next one. Only responses to Fetch may be sent
before the appended entries are synced: the leader counts each copy once it is synced where it is stored.

Times are in ms of one monotonic clock, which no other node shares.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from controller.raft.voters import NO_DIRECTORY

if TYPE_CHECKING:
    from controller.raft.log import Entry, SnapshotId
    from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
    from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
    from protocol.messages.fetch import FetchRequest, FetchResponse
    from protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
    from protocol.messages.vote import VoteRequest, VoteResponse
    from protocol.primitives import Buffer
    from protocol.record_batch import BatchHeader
    from protocol.schema import Message

RaftRequest: TypeAlias = (
    "VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest | FetchRequest | FetchSnapshotRequest"
)
RaftResponse: TypeAlias = (
    "VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse | FetchResponse | FetchSnapshotResponse"
)
NO_NODE = -1


class Role(Enum):
    """The role of a node in its current epoch."""

    UNATTACHED = "unattached"
    """No leader is known."""
    PROSPECTIVE = "prospective"
    """Requests pre-votes in the current epoch (KIP-996)."""
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    OBSERVER = "observer"
    """Follows the leader without being a voter."""
    RESIGNED = "resigned"
    """Was the leader of this epoch."""


class Timing(NamedTuple):
    """Timeouts in ms, and sizes of requests in bytes."""

    election_timeout_ms: int = 1000
    """Election timeout, at random up to twice as long (controller.quorum.election.timeout.ms)."""
    fetch_timeout_ms: int = 2000
    """Fetch timeout (controller.quorum.fetch.timeout.ms).

    A follower suspects its leader after this time; a leader without a majority resigns after 1.5 times this.
    """
    election_backoff_max_ms: int = 1000
    """Longest backoff after a lost election (controller.quorum.election.backoff.max.ms)."""
    request_timeout_ms: int = 2000
    """Time in which a response must arrive (controller.quorum.request.timeout.ms)."""
    retry_backoff_ms: int = 20
    """Wait before a failed request is retried (controller.quorum.retry.backoff.ms)."""
    fetch_max_wait_ms: int = 500
    """Time for which the leader may hold a Fetch."""
    fetch_max_bytes: int = 1 << 20
    """Size that a Fetch requests (controller.quorum.fetch.max.bytes)."""
    fetch_snapshot_max_bytes: int = 1 << 20
    """Size that a FetchSnapshot requests (controller.quorum.fetch.snapshot.max.bytes)."""


class ElectionState(NamedTuple):
    """The durable state of a voter: its epoch, and the leader or its vote in it (Kafka: `ElectionState`)."""

    epoch: int = 0
    leader_id: int = NO_NODE
    voted_id: int = NO_NODE
    voted_directory_id: bytes = NO_DIRECTORY

    def may_vote_for(self, candidate_id: int, directory_id: bytes) -> bool:
        """Return whether the candidate can get this epoch's vote: no leader is known, and no other node got it."""
        voted = (self.voted_id, self.voted_directory_id)
        return self.leader_id == NO_NODE and (self.voted_id == NO_NODE or voted == (candidate_id, directory_id))


class Tick(NamedTuple):
    """Time has passed."""


class RequestReceived(NamedTuple):
    """A request of another node: Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch or FetchSnapshot."""

    token: object
    """Returned in the Response; opaque to the node."""
    request: RaftRequest


class OutboundRequest(NamedTuple):
    """A request to another node; compared by identity."""

    to: int
    message: RaftRequest


class ResponseReceived(NamedTuple):
    """The end of an OutboundRequest: a response, or None."""

    request: OutboundRequest
    response: Message | None


class Disconnected(NamedTuple):
    """A node has no connections left."""

    node_id: int


Event: TypeAlias = Tick | RequestReceived | ResponseReceived | Disconnected


class LogRead(NamedTuple):
    """Whole batches of the log from `offset` on: at least one if there is one, else at most `max_bytes`.

    They go into the `records` of the response's only partition.
    """

    offset: int
    max_bytes: int


class SnapshotRead(NamedTuple):
    """Bytes of a snapshot's file, at most `max_bytes` from `position` on.

    They go into `unaligned_records` of the response's only partition, and the file's size into `size`. If the file is
    gone, the partition's error code is SNAPSHOT_NOT_FOUND instead; if it ends before `position`, POSITION_OUT_OF_RANGE.
    """

    snapshot: SnapshotId
    position: int
    max_bytes: int


class Response(NamedTuple):
    """The response to the request with that token; the driver fills in `read` first."""

    token: object
    response: RaftResponse
    read: LogRead | SnapshotRead | None = None


class SnapshotPart(NamedTuple):
    """Bytes of a snapshot download; position 0 starts a new file."""

    snapshot: SnapshotId
    position: int
    data: Buffer


class ReceivedBatches(NamedTuple):
    """Whole and consecutive batches that start at the log end, checked and decoded: at least one."""

    batches: memoryview
    headers: tuple[BatchHeader, ...]
    entries: tuple[Entry, ...]


class Ready(NamedTuple):
    """The actions to perform, in the order that the module's docstring defines; None or empty where there is none."""

    election_state: ElectionState | None
    entries: tuple[Entry, ...]
    high_watermark: int
    truncate_to: int | None = None
    snapshot_parts: tuple[SnapshotPart, ...] = ()
    reset_to_snapshot: SnapshotId | None = None
    received: ReceivedBatches | None = None
    requests: tuple[OutboundRequest, ...] = ()
    responses: tuple[Response, ...] = ()
    warnings: tuple[str, ...] = ()
    """Problems that the node cannot solve, to be logged for the operator."""


class ReplicaProgress(NamedTuple):
    """How far a node has replicated the leader's log; ages in ms, None if unknown."""

    node_id: int
    directory_id: bytes
    end_offset: int
    last_fetch_age_ms: int | None
    """Since its last Fetch."""
    caught_up_age_ms: int | None
    """Since it last had all of the leader's log."""


class QuorumInfo(NamedTuple):
    """The leader's view of its quorum; the leader is one of the voters."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[ReplicaProgress, ...]
    observers: tuple[ReplicaProgress, ...] = ()
