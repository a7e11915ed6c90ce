"""The Raft node: one node's part of KRaft consensus as a state machine without I/O (Kafka: `KafkaRaftClient`).

The design is that of etcd's raft library. The driver passes events to `step`; `ready` returns the actions to perform,
in the order defined in `messages.py`; `advance` reports them done. Only then does a vote or an entry count. At most one
Ready is outstanding; the effects of events in the meantime go into the next one.

A node is in one of the roles of `quorum_state.py`, which has the table of transitions. Each event goes to the role's
object: `nominee.py`, `leader.py` and `follower.py` have the roles, `request_handling.py` the requests of other nodes,
`election.py` votes and backoff, `log.py` the log's epochs and offsets, `voter_history.py` the voters.

Raft interprets only its own control records. Encoding of entries is in `controller/batches.py`; files and connections
belong to the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from controller.raft.leader import LeaderState
from controller.raft.local_replica import LocalReplica
from controller.raft.log import Entry, RaftLog, SnapshotId
from controller.raft.messages import (
    NO_NODE,
    Disconnected,
    ElectionState,
    Event,
    OutboundRequest,
    QuorumInfo,
    Ready,
    RequestReceived,
    ResponseReceived,
    Role,
    Timing,
)
from controller.raft.quorum_state import QuorumState
from controller.raft.request_handling import RequestHandler
from controller.raft.voters import NO_DIRECTORY, VoterSet
from controller.raft.wire import ReplicaKey, ResponseHeader, response_header
from protocol.errors import ErrorCode, InvariantError, KafkaError
from protocol.schema import Message

if TYPE_CHECKING:
    from random import Random

    from controller.raft.voter_history import VoterHistory


class RaftNode:
    """One node of the quorum: a voter or an observer."""

    def __init__(
        self,
        node_id: int,
        voter_history: VoterHistory,
        election: ElectionState,
        log: RaftLog,
        *,
        cluster_id: str | None = None,
        directory_id: bytes = NO_DIRECTORY,
        timing: Timing = Timing(),  # noqa: B008 - immutable
        random: Random | None = None,
        now_ms: int = 0,
    ) -> None:
        """Start from what is stored: the voters in the log, the election state, and the log.

        `random` gives timeouts their jitter; only a quorum of one can do without it.
        """
        self.node_id = node_id
        self.log = log
        own = voter_history.voters.by_id.get(node_id)
        key = ReplicaKey(node_id, own.directory_id if own is not None else directory_id, cluster_id)
        self._replica = LocalReplica(key, voter_history, log, timing=timing, random=random, now_ms=now_ms)
        self._quorum = QuorumState(self._replica, election)
        self._requests = RequestHandler(self._replica, self._quorum)
        # The voters whose last response was INCONSISTENT_CLUSTER_ID.
        self._voters_in_other_cluster: set[int] = set()

    @property
    def voters(self) -> VoterSet:
        """Return the voters at the log end."""
        return self._replica.voters

    @property
    def kraft_version(self) -> int:
        """Return the level of `kraft.version`: from 1 on the voters can change."""
        return self._replica.voter_history.kraft_version

    @property
    def is_voter(self) -> bool:
        """Return whether this node is a voter."""
        return self._replica.is_voter

    @property
    def is_in_other_cluster(self) -> bool:
        """Return whether most voters last answered INCONSISTENT_CLUSTER_ID; this node then has no leader."""
        return self.voters.has_majority(self._voters_in_other_cluster)

    @property
    def role(self) -> Role:
        """Return the current role."""
        return self._quorum.state.role

    @property
    def election(self) -> ElectionState:
        """Return the election state, stored or to be stored."""
        return self._quorum.election

    @property
    def epoch(self) -> int:
        """Return the current epoch."""
        return self._quorum.epoch

    @property
    def leader_id(self) -> int:
        """Return the leader as this node knows it, or NO_NODE."""
        return self._quorum.state.leader_id

    @property
    def epoch_start(self) -> int | None:
        """Return the offset of the first entry of the epoch that this node leads; None if it does not lead."""
        state = self._quorum.state
        return state.epoch_start if isinstance(state, LeaderState) else None

    @property
    def end_offset(self) -> int:
        """Return the offset of the next record."""
        return self.log.end_offset

    @property
    def high_watermark(self) -> int:
        """Return the high watermark that this node knows."""
        return self.log.high_watermark

    @property
    def due_ms(self) -> int | None:
        """Return when the next Tick is due; None if only other events can cause actions."""
        return self._quorum.state.due_ms

    def quorum(self, now_ms: int | None = None) -> QuorumInfo:
        """Return the state of the quorum; KafkaError NOT_LEADER_OR_FOLLOWER if this node does not lead."""
        leader = self._quorum.state
        if not isinstance(leader, LeaderState):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {self.node_id} does not lead the quorum")
        now_ms = self._replica.now_ms if now_ms is None else now_ms
        return QuorumInfo(
            self.node_id, self.epoch, self.high_watermark, leader.voters(now_ms), leader.observers(now_ms)
        )

    def snapshot_voters(self, end_offset: int) -> VoterSet | None:
        """Return the voters that a snapshot of the log up to `end_offset` has; None at kraft.version 0."""
        return self._replica.voter_history.snapshot_voters(end_offset)

    def campaign(self, now_ms: int | None = None) -> None:
        """Become a candidate in a new epoch at once, without pre-votes."""
        self._replica.now_ms = self._replica.now_ms if now_ms is None else now_ms
        if not self.is_voter:
            raise InvariantError(f"node {self.node_id} is not one of the voters {sorted(self.voters.by_id)}")
        self._quorum.become_candidate()
        self._quorum.state.send_due()

    def resign(self, now_ms: int) -> None:
        """Give up leadership and start no more elections; the voters receive the preferred successors."""
        self._replica.now_ms = now_ms
        self._replica.stopping = True
        self._quorum.perform(self._quorum.state.stop_campaigning())

    def propose(self, records: Sequence[Message]) -> Entry:
        """Append records to the leader's log; they are committed once the high watermark has passed them.

        KafkaError NOT_CONTROLLER if this node does not lead.
        """
        leader = self._quorum.state
        if not isinstance(leader, LeaderState):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self.node_id} does not lead the quorum")
        return leader.append(records)

    def withdraw(self, entries: Sequence[Entry]) -> bool:
        """Remove entries that could not be stored, the newest of the last Ready; return False if they must stay.

        Only the sole voter of a quorum can remove entries: elsewhere followers may have stored what the leader has not.
        The first entry of an epoch always stays.
        """
        first, last = entries[0], entries[-1]
        newest = not self._replica.pending.entries and last.next_offset == self.log.end_offset
        if len(self.voters.by_id) > 1 or not newest:
            return False
        if self.epoch_start is None or first.base_offset <= self.epoch_start:
            return False
        self._replica.withdraw(first.base_offset)
        return True

    def snapshot_taken(self, newest: SnapshotId, start_offset: int) -> None:
        """Record a snapshot of the committed log, and the new start of the log."""
        self.log.snapshot_taken(newest, start_offset)

    def snapshot_loaded(self, snapshot: SnapshotId, voters: VoterSet | None, kraft_version: int) -> None:
        """Record the voters in the snapshot to which the log was reset."""
        self._replica.voter_history.load_snapshot(snapshot.end_offset, voters, kraft_version)

    def ready(self) -> Ready | None:
        """Return the next actions to perform; None if there are none."""
        return self._replica.pending.take(self.log.high_watermark)

    def advance(self, ready: Ready, now_ms: int | None = None) -> None:
        """Record that everything in `ready` is performed: its election state and its entries are durable."""
        self._replica.now_ms = self._replica.now_ms if now_ms is None else now_ms
        if ready.election_state is not None:
            self._quorum.perform(self._quorum.state.election_stored(ready.election_state))
        leader = self._quorum.state
        if ready.entries and isinstance(leader, LeaderState):
            leader.stored(ready.entries[-1].next_offset)
        self._quorum.state.send_due()

    def step(self, event: Event, now_ms: int) -> None:
        """Process an event; InvariantError if a correct quorum cannot produce it."""
        self._replica.now_ms = now_ms
        quorum = self._quorum
        if isinstance(event, RequestReceived):
            self._requests.handle(event.token, event.request)
        elif isinstance(event, ResponseReceived):
            self._handle_response(event.request, event.response)
        elif isinstance(event, Disconnected) and event.node_id == self.leader_id:
            quorum.perform(quorum.state.suspect_leader())
        quorum.perform(quorum.state.check_deadlines())
        quorum.state.send_due()

    def _handle_response(self, request: OutboundRequest, response: Message | None) -> None:
        header = None if response is None else response_header(response)
        state = self._quorum.state
        was_outstanding = state.request_ended(request)
        if header is not None:
            self._check_cluster(request.to, header)
            self._learn_leader(header)
        if was_outstanding and self._quorum.state is state:
            self._quorum.perform(state.response_received(request, header))

    def _check_cluster(self, node_id: int, response: ResponseHeader) -> None:
        if response.error != ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._voters_in_other_cluster.discard(node_id)
            return
        self._voters_in_other_cluster.add(node_id)
        self._replica.warn(
            "Node %s is not in this node's cluster %s: start all nodes with"
            " the same controller.quorum.voters, from which the id of a new cluster is derived, or the same"
            " barnabas.cluster.id; the stored id is in meta.properties",
            node_id,
            self._replica.key.cluster_id,
        )

    def _learn_leader(self, response: ResponseHeader) -> None:
        """Follow the leader that a response reports for this or a later epoch; epoch 0 has no leader."""
        quorum, epoch, leader_id = self._quorum, response.epoch, response.leader_id
        if not epoch or epoch < quorum.epoch:
            return
        can_follow = leader_id in self.voters and leader_id != self.node_id
        if epoch > quorum.epoch:
            if can_follow:
                quorum.become_follower(epoch, leader_id)
            else:
                quorum.become_unattached(ElectionState(epoch), self._replica.election_timeout())
        elif can_follow:
            known_id = quorum.election.leader_id
            if known_id == NO_NODE or (known_id == leader_id and self.role is Role.UNATTACHED):
                quorum.become_follower(epoch, leader_id)
