"""The Raft node: one node's part of KRaft consensus as a state machine without I/O (Kafka: `KafkaRaftClient`).

The design is that of etcd's raft library. The driver passes events to `step`; `ready` returns the actions to perform,
in the order defined in `messages.py`; `advance` reports them done. Effects count only then: a vote once it is stored,
an entry once it is synced. At most one Ready is outstanding; the effects of events in the meantime go into the next
one.

    role         event                                        next role
    unattached   election timeout                             prospective
    follower     fetch timeout, leader disconnected           prospective
                 its leader resigned                          candidate if it is the preferred successor, else
                                                              prospective after a delay
    prospective  a majority grants its pre-vote               candidate
                 refused, or election timeout                 follower of its last leader, or unattached without one;
                                                              prospective again after the backoff
    candidate    on entry                                     (starts the next epoch and votes for itself)
                 a majority votes for it                      leader: starts its epoch with a LeaderChange entry
                 refused, or election timeout                 prospective, if refused after the backoff
    leader       no majority fetches, or controlled stop      resigned: sends EndQuorumEpoch with preferred successors
    resigned     election timeout                             prospective
    observer     fetch timeout, leader disconnected or        unattached
                 resigned
    any          a later epoch                                follower of its leader; unattached if that is unknown
                 a message with the leader of this epoch      follower (observer if this node is no voter)

The only voter of a quorum is a majority by itself: it becomes a candidate at once and goes through the same steps
without messages.

A leader commits what a majority of the voters has stored, once the first entry of its own epoch is among it (Raft
section 5.4.2); until then it serves nothing.

Raft interprets only its own control records. Encoding of entries is in `controller/batches.py`; files and connections
belong to the driver. `roles.py` has the role transitions, `request_handling.py` the requests of other nodes,
`election.py` the rules of elections, `leader.py` a leader's view of its followers, `follower.py` fetching, `log.py` the
log's epochs and offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from controller.raft.follower import FollowerState, SnapshotDownload, scan
from controller.raft.log import Entry, RaftEpochEnd, RaftLog, SnapshotId
from controller.raft.messages import (
    NO_NODE,
    Disconnected,
    Event,
    OutboundRequest,
    QuorumInfo,
    QuorumState,
    Ready,
    ReceivedBatches,
    RequestReceived,
    ResponseReceived,
    Role,
    Timing,
)
from controller.raft.request_handling import RequestHandling
from controller.raft.voters import NO_DIRECTORY, VoterSet
from controller.raft.wire import (
    ReplicaKey,
    ResponseHeader,
    told_by,
)
from protocol.errors import ErrorCode, InvariantError, KafkaError
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.fetch_snapshot import FetchSnapshotRequest
from protocol.messages.vote import VoteRequest
from protocol.schema import Message

if TYPE_CHECKING:
    from random import Random

__all__ = ["NO_NODE", "Entry", "QuorumInfo", "QuorumState", "RaftNode", "Ready", "Role"]


class RaftNode(RequestHandling):
    """One node of the quorum: a voter or an observer."""

    def __init__(
        self,
        node_id: int,
        voters: VoterSet,
        quorum_state: QuorumState,
        *,
        kraft_version: int,
        end_offset: int,
        end_epoch: int,
        high_watermark: int = 0,
        voters_in_log: bool = True,
        epochs: Sequence[tuple[int, int]] = (),
        oldest_snapshot: SnapshotId | None = None,
        newest_snapshot: SnapshotId | None = None,
        cluster_id: str | None = None,
        directory_id: bytes = NO_DIRECTORY,
        timing: Timing = Timing(),  # noqa: B008 - it cannot change
        random: Random | None = None,
        now_ms: int = 0,
    ) -> None:
        """Start from the stored state: the log ends at `end_offset`, its last entry has `end_epoch`.

        Entries below `high_watermark`, the end of the newest snapshot, are known to be committed. `epochs` are the
        log's (epoch, start offset), oldest first; the log starts at the end of `oldest_snapshot`, at 0 without one. If
        `voters_in_log` is False, the first leader writes the voters to the log. `random` gives timeouts their jitter;
        only a quorum of one can do without it.
        """
        log = RaftLog(
            end_offset,
            end_epoch,
            high_watermark=high_watermark,
            epochs=epochs,
            oldest_snapshot=oldest_snapshot,
            newest_snapshot=newest_snapshot,
        )
        own = voters.by_id.get(node_id)
        super().__init__(
            ReplicaKey(node_id, own.directory_id if own is not None else directory_id, cluster_id),
            voters,
            quorum_state,
            log,
            kraft_version=kraft_version,
            voters_in_log=voters_in_log,
            timing=timing,
            random=random,
            now_ms=now_ms,
        )
        self._strangers: set[int] = set()

    @property
    def is_stranger(self) -> bool:
        """Return whether most voters last answered INCONSISTENT_CLUSTER_ID; this node then has no leader."""
        return self.voters.has_majority(self._strangers)

    @property
    def kraft_version(self) -> int:
        """Return the level of `kraft.version`: from 1 on the voters can change."""
        return self._kraft_version

    @property
    def epoch_start(self) -> int | None:
        """Return the offset of the first entry of the epoch that this node leads; None if it does not lead."""
        return None if self._leadership is None else self._leadership.epoch_start

    @property
    def end_offset(self) -> int:
        """Return the offset of the next record."""
        return self._log.end_offset

    @property
    def high_watermark(self) -> int:
        """Return the high watermark that this node knows."""
        return self._log.high_watermark

    def quorum(self, now_ms: int | None = None) -> QuorumInfo:
        """Return the state of the quorum; KafkaError NOT_LEADER_OR_FOLLOWER if this node does not lead."""
        leadership = self._leadership
        if leadership is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {self.node_id} does not lead the quorum")
        now_ms = self._now_ms if now_ms is None else now_ms
        return QuorumInfo(
            self.node_id,
            self.epoch,
            self.high_watermark,
            leadership.voters(self.voters, now_ms),
            leadership.observers(self.voters, now_ms),
        )

    def campaign(self, now_ms: int | None = None) -> None:
        """Become a candidate in a new epoch at once, without pre-votes."""
        self._now_ms = self._now_ms if now_ms is None else now_ms
        if not self.is_voter:
            raise InvariantError(f"node {self.node_id} is not one of the voters {sorted(self.voters.by_id)}")
        self._stand()
        self._send_due()

    def resign(self, now_ms: int) -> None:
        """Give up leadership and start no more elections; the voters receive the preferred successors."""
        self._now_ms = now_ms
        self._stopping = True
        if self._leadership is not None:
            self._resign()
        elif self._ballot is not None:
            self._unattach(self.quorum_state, now_ms)
        elif self.role is not Role.OBSERVER:
            self._deadline_ms = None

    def propose(self, records: Sequence[Message]) -> Entry:
        """Append records to the leader's log; they are committed once the high watermark has passed them.

        KafkaError NOT_CONTROLLER if this node does not lead.
        """
        if self._leadership is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self.node_id} does not lead the quorum")
        return self._append(records)

    def withdraw(self, entries: Sequence[Entry]) -> bool:
        """Remove entries that could not be stored, the newest of the last Ready; return False if they must stay.

        Only the sole voter of a quorum can remove entries: elsewhere followers may have stored what the leader has not.
        The first entry of an epoch always stays.
        """
        first, last = entries[0], entries[-1]
        newest = not self._outbox.entries and last.next_offset == self._log.end_offset
        if self._leadership is None or len(self.voters.by_id) > 1 or not newest:
            return False
        if first.base_offset <= self._leadership.epoch_start:
            return False
        self._log.cut(first.base_offset)
        return True

    def snapshotted(self, newest: SnapshotId, start_offset: int) -> None:
        """Record a snapshot of the committed log, and the new start of the log."""
        self._log.snapshotted(newest, start_offset)

    def ready(self) -> Ready | None:
        """Return the next actions to perform; None if there are none."""
        return self._outbox.take(self._log.high_watermark)

    def advance(self, ready: Ready, now_ms: int | None = None) -> None:
        """Record that everything in `ready` is performed: its state and its entries are durable."""
        self._now_ms = self._now_ms if now_ms is None else now_ms
        state = ready.quorum_state
        if state is not None and self.role is Role.CANDIDATE and state.epoch == self.epoch:
            self._granted(state.voted_id)
        if ready.entries and self._leadership is not None:
            end_offset = ready.entries[-1].next_offset
            if end_offset > self._log.end_offset:
                raise InvariantError(f"stored up to offset {end_offset}, beyond the end of {self._log!r}")
            self._leadership.count_own(end_offset)
            self._commit()
        self._send_due()

    def step(self, event: Event, now_ms: int) -> None:
        """Process an event; InvariantError if a correct quorum cannot produce it."""
        self._now_ms = now_ms
        if isinstance(event, RequestReceived):
            self._asked(event.token, event.request)
        elif isinstance(event, ResponseReceived):
            self._answered(event.request, event.response)
        elif isinstance(event, Disconnected) and event.node_id == self.leader_id:
            self._suspect()
        self._pass_time()

    def _answered(self, request: OutboundRequest, response: Message | None) -> None:
        told = None if response is None else told_by(response)
        if told is not None and told.error == ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._strangers.add(request.to)
            self._warn(
                "Node %s is not in this node's cluster %s: start all nodes with"
                " the same controller.quorum.voters, from which the id of a new cluster is derived, or the same"
                " barnabas.cluster.id; the stored id is in meta.properties",
                request.to,
                self._me.cluster_id,
            )
        elif told is not None:
            self._strangers.discard(request.to)
        if isinstance(request.message, VoteRequest):
            self._answered_vote(request, told)
        elif isinstance(request.message, BeginQuorumEpochRequest):
            self._answered_begin(request, told)
        elif isinstance(request.message, FetchRequest | FetchSnapshotRequest):
            self._answered_read(request, told)
        else:
            self._learn(told)

    def _learn(self, told: ResponseHeader | None) -> None:
        """Follow the leader that a response reports for this or a later epoch; epoch 0 has no leader."""
        if told is None or not told.epoch:
            return
        known = self.quorum_state.leader_id
        follows = told.leader_id in self.voters and told.leader_id != self.node_id
        if told.epoch > self.epoch:
            if follows:
                self._follow(told.epoch, told.leader_id)
            else:
                self._unattach(QuorumState(told.epoch), self._election_ms())
        elif told.epoch == self.epoch and follows and (known == NO_NODE or self._lost_leader(told.leader_id)):
            self._follow(told.epoch, told.leader_id)

    def _lost_leader(self, leader_id: int) -> bool:
        return self.role is Role.UNATTACHED and self.quorum_state.leader_id == leader_id

    def _answered_vote(self, request: OutboundRequest, told: ResponseHeader | None) -> None:
        ballot = self._ballot
        counts = ballot is not None and ballot.calls.ended(request)
        self._learn(told)
        if ballot is None or not counts or self._ballot is not ballot:
            return
        if told is None:
            ballot.calls.again(request.to, self._now_ms + self.timing.retry_backoff_ms)
        elif not told.error and told.partition.vote_granted:
            self._granted(request.to)
        else:
            ballot.refused.add(request.to)
            self._count_votes()

    def _granted(self, voter_id: int) -> None:
        if self._ballot is not None:
            self._ballot.granted.add(voter_id)
            self._count_votes()

    def _answered_begin(self, request: OutboundRequest, told: ResponseHeader | None) -> None:
        leadership = self._leadership
        counts = leadership is not None and leadership.begin_calls.ended(request)
        self._learn(told)
        if leadership is not None and counts:
            # No hurry: a voter that comes back discovers the leader by its own Fetch.
            wait_ms = self.timing.fetch_timeout_ms // (8 if told is None else 2)
            leadership.begin_calls.again(request.to, self._now_ms + wait_ms)

    def _answered_read(self, request: OutboundRequest, told: ResponseHeader | None) -> None:
        fetching = self._fetching
        retry_ms = self._now_ms + self.timing.retry_backoff_ms
        counts = fetching is not None and fetching.ended(request, retry_ms)
        self._learn(told)
        if fetching is None or not counts or self._fetching is not fetching:
            return
        if told is None or told.error or fetching.leader_id == NO_NODE:
            fetching.download = None
            if self.role is Role.OBSERVER:
                self._suspect()
                if self._fetching is not None:
                    self._fetching.again(retry_ms)
        else:
            self._heard_of_leader()
            proceeds = self._read(fetching, request, told.partition)
            if proceeds:
                fetching.again(self._now_ms)

    def _read(self, fetching: FollowerState, request: OutboundRequest, answered: Any) -> bool:
        """Process a successful response; return False if the next request is to wait for the backoff."""
        if isinstance(request.message, FetchSnapshotRequest):
            return self._read_snapshot(fetching, answered)
        snapshot = SnapshotId(answered.snapshot_id.end_offset, answered.snapshot_id.epoch)
        if snapshot.end_offset >= 0:
            if snapshot.end_offset < self._log.high_watermark:
                self._warn(
                    "The leader's snapshot ends at offset %s, below the high watermark: %r",
                    snapshot.end_offset,
                    self._log,
                )
                return False
            fetching.download = SnapshotDownload(snapshot, 0)
            return True
        if answered.diverging_epoch.end_offset >= 0:
            parts_at = RaftEpochEnd(answered.diverging_epoch.epoch, answered.diverging_epoch.end_offset)
            self._outbox.truncate_to = self._log.truncate(parts_at)
            return True
        return self._read_batches(answered)

    def _read_batches(self, answered: Any) -> bool:
        data = memoryview(answered.records or b"")
        base_offset, scanned = self._log.end_offset, scan(data, self._log, self.epoch)
        for epoch, next_offset in scanned.batches:
            self._log.append(epoch, next_offset)
        if scanned.batches:
            batches = data[: scanned.size_bytes]
            self._outbox.received = ReceivedBatches(base_offset, self._log.end_offset, self.epoch, batches)
        if scanned.problem:
            self._warn("Batches from the quorum's leader %s refused: %s", self.leader_id, scanned.problem)
            return False
        self._log.commit(answered.high_watermark)
        return True

    def _read_snapshot(self, fetching: FollowerState, answered: Any) -> bool:
        part = fetching.received(answered.position, answered.unaligned_records or b"", answered.size)
        if part is None:
            fetching.download = None
            return False
        self._outbox.snapshot_parts.append(part)
        if part.position + len(part.data) == answered.size:
            fetching.download = None
            self._log.reset_to_snapshot(part.snapshot)
            self._outbox.reset_to_snapshot = part.snapshot
        return True
