"""The quorum's consensus: one node's part of Raft, as KRaft tells it (KIP-595), in the shape of etcd's.

The node does nothing itself. It is told what happened, and `ready` gives what is to be done: `messages.py` says
who does what in which order. Once that is done, `advance` tells the node so; only then does what follows from it hold:
a vote counts once it is stored, an entry once it is synced. One Ready is out at a time, and what happens meanwhile goes
into the next.

    role         event                                        becomes
    unattached   its time is up                               prospective
    follower     its leader is silent, gone, or resigned      prospective; the best successor of one that resigned:
                                                              candidate
    prospective  a majority would vote for it                 candidate
                 refused, or time is up                       follower of the leader it had, or unattached for a while
    candidate    begins with the next epoch, votes for itself
                 a majority voted                             leader: begins its epoch with a LeaderChange entry
                 refused, or time is up                       prospective, after a while
    leader       no majority fetches, or a clean stop         resigned: tells who had better stand for election
    resigned     its time is up                               prospective
    observer     its leader is silent, gone, or resigned      unattached
    any          hears of a later epoch                       follower of its leader; unattached if it is not told
                 who leads
                 a request or an answer names the leader of   its follower (observer, if it has no vote)
                 this epoch

The only voter of its quorum is a majority by itself: it stands for election at once, and goes through these steps
without anybody else's messages.

A leader commits what a majority of the voters has stored, provided that its own epoch's first entry is among it (Raft
section 5.4.2): until then, it serves nothing.

What entries contain is none of Raft's business but for its own control records. How they become bytes is in
`batches.py`; files and connections are the driver's. `election.py` has the rules of elections, `leader.py`
what a leader knows of its followers, `follower.py` what a follower does to become like it, `log.py` what is
known of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from controller.raft.follower import Download, Fetching, scan
from controller.raft.log import Entry, EpochEnd, RaftLog, SnapshotId
from controller.raft.messages import (
    NOBODY,
    Answered,
    Asked,
    Disconnected,
    Event,
    Quorum,
    QuorumState,
    Ready,
    Received,
    Request,
    Role,
    Timing,
)
from controller.raft.request_handling import Answering
from controller.raft.voters import NO_DIRECTORY, VoterSet
from controller.raft.wire import (
    Self,
    Told,
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

__all__ = ["NOBODY", "Entry", "Quorum", "QuorumState", "RaftNode", "Ready", "Role"]


class RaftNode(Answering):
    """One node of the quorum: a voter, or an observer."""

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
        """Begin with what is stored: the log ends at `end_offset`, with an entry of `end_epoch`.

        Everything below `high_watermark`, the end of the newest snapshot, is known to be committed. `epochs` are the
        log's (epoch, start offset), oldest first; the log begins where `oldest_snapshot` ends, at 0 without one. Unless
        the voters are `voters_in_log`, the first leader writes them there. Without `random`, nodes that wait for each
        other do so for equally long: only a quorum of one can do without.
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
            Self(node_id, own.directory_id if own is not None else directory_id, cluster_id),
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
        """Say whether most voters, when they answered last, were of another cluster: nobody leads this node then."""
        return self.voters.has_majority(self._strangers)

    @property
    def kraft_version(self) -> int:
        """Return the level of the feature by which the voters can change."""
        return self._kraft_version

    @property
    def epoch_start(self) -> int | None:
        """Return the offset of the first entry of the epoch that this node leads; None if it leads none."""
        return None if self._leadership is None else self._leadership.epoch_start

    @property
    def end_offset(self) -> int:
        """Return the offset that the next record gets."""
        return self._log.end_offset

    @property
    def high_watermark(self) -> int:
        """Return the offset below which everything is committed, as far as this node knows."""
        return self._log.high_watermark

    def quorum(self, now_ms: int | None = None) -> Quorum:
        """Return what this leader knows; KafkaError NOT_LEADER_OR_FOLLOWER if it is none."""
        leadership = self._leadership
        if leadership is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {self.node_id} does not lead the quorum")
        now_ms = self._now_ms if now_ms is None else now_ms
        return Quorum(
            self.node_id,
            self.epoch,
            self.high_watermark,
            leadership.voters(self.voters, now_ms),
            leadership.observers(self.voters, now_ms),
        )

    def campaign(self, now_ms: int | None = None) -> None:
        """Stand for election at once, in a new epoch; without asking first whether that helps."""
        self._now_ms = self._now_ms if now_ms is None else now_ms
        if not self.is_voter:
            raise InvariantError(f"node {self.node_id} is not one of the voters {sorted(self.voters.by_id)}")
        self._stand()
        self._send_due()

    def resign(self, now_ms: int) -> None:
        """Lead no more and stand for no election any more; voters are told who had better do."""
        self._now_ms = now_ms
        self._stopping = True
        if self._leadership is not None:
            self._resign()
        elif self._ballot is not None:
            self._unattach(self.quorum_state, now_ms)
        elif self.role is not Role.OBSERVER:
            self._deadline_ms = None

    def propose(self, records: Sequence[Message]) -> Entry:
        """Append records to the log of the leader; they hold once the high watermark has passed them.

        KafkaError NOT_CONTROLLER if this node does not lead.
        """
        if self._leadership is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self.node_id} does not lead the quorum")
        return self._append(records)

    def withdraw(self, entries: Sequence[Entry]) -> bool:
        """Take back proposals that could not be stored, the last that `ready` gave; False if that cannot be.

        Only the voter of a quorum of one can, others may have stored what their leader has not; and an epoch's first
        entry is never taken back.
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
        """Take note of a snapshot that was taken of what is committed, and of where the log begins now."""
        self._log.snapshotted(newest, start_offset)

    def ready(self) -> Ready | None:
        """Return what is to be done; None if there is nothing."""
        return self._outbox.take(self._log.high_watermark)

    def advance(self, ready: Ready, now_ms: int | None = None) -> None:
        """Take note that everything in `ready` is done: its state and its entries are durable."""
        self._now_ms = self._now_ms if now_ms is None else now_ms
        state = ready.quorum_state
        if state is not None and self.role is Role.CANDIDATE and state.epoch == self.epoch:
            self._granted(state.voted_id)
        if ready.entries and self._leadership is not None:
            end_offset = ready.entries[-1].next_offset
            if end_offset > self._log.end_offset:
                raise InvariantError(f"stored up to {end_offset}, and the log is {self._log!r}")
            self._leadership.count_own(end_offset)
            self._commit()
        self._send_due()

    def step(self, event: Event, now_ms: int) -> None:
        """Take note of an event; InvariantError if it cannot have happened in a quorum that is sound."""
        self._now_ms = now_ms
        if isinstance(event, Asked):
            self._asked(event.token, event.request)
        elif isinstance(event, Answered):
            self._answered(event.request, event.response)
        elif isinstance(event, Disconnected) and event.node_id == self.leader_id:
            self._suspect()
        self._pass_time()

    def _answered(self, request: Request, response: Message | None) -> None:
        told = None if response is None else told_by(response)
        if told is not None and told.error == ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._strangers.add(request.to)
            self._warn(
                "Node %s is not in cluster %s, in which this one is: start all nodes with"
                " the same controller.quorum.voters, of which the id of a new cluster is made, or the same"
                " barnabas.cluster.id; meta.properties has the id of what is stored",
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

    def _learn(self, told: Told | None) -> None:
        """Follow the leader of this or a later epoch; nobody leads epoch 0."""
        if told is None or not told.epoch:
            return
        known = self.quorum_state.leader_id
        follows = told.leader_id in self.voters and told.leader_id != self.node_id
        if told.epoch > self.epoch:
            if follows:
                self._follow(told.epoch, told.leader_id)
            else:
                self._unattach(QuorumState(told.epoch), self._election_ms())
        elif told.epoch == self.epoch and follows and (known == NOBODY or self._lost_leader(told.leader_id)):
            self._follow(told.epoch, told.leader_id)

    def _lost_leader(self, leader_id: int) -> bool:
        return self.role is Role.UNATTACHED and self.quorum_state.leader_id == leader_id

    def _answered_vote(self, request: Request, told: Told | None) -> None:
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

    def _answered_begin(self, request: Request, told: Told | None) -> None:
        leadership = self._leadership
        counts = leadership is not None and leadership.begin_calls.ended(request)
        self._learn(told)
        if leadership is not None and counts:
            # Who comes back asks by itself who leads, so there is no hurry.
            wait_ms = self.timing.fetch_timeout_ms // (8 if told is None else 2)
            leadership.begin_calls.again(request.to, self._now_ms + wait_ms)

    def _answered_read(self, request: Request, told: Told | None) -> None:
        fetching = self._fetching
        retry_ms = self._now_ms + self.timing.retry_backoff_ms
        counts = fetching is not None and fetching.ended(request, retry_ms)
        self._learn(told)
        if fetching is None or not counts or self._fetching is not fetching:
            return
        if told is None or told.error or fetching.leader_id == NOBODY:
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

    def _read(self, fetching: Fetching, request: Request, answered: Any) -> bool:
        """Take what the leader gave; False if it is nothing to go on with at once."""
        if isinstance(request.message, FetchSnapshotRequest):
            return self._read_snapshot(fetching, answered)
        snapshot = SnapshotId(answered.snapshot_id.end_offset, answered.snapshot_id.epoch)
        if snapshot.end_offset >= 0:
            if snapshot.end_offset < self._log.high_watermark:
                self._warn(
                    "The leader offers a snapshot up to %s, and this node has %r", snapshot.end_offset, self._log
                )
                return False
            fetching.download = Download(snapshot, 0)
            return True
        if answered.diverging_epoch.end_offset >= 0:
            parts_at = EpochEnd(answered.diverging_epoch.epoch, answered.diverging_epoch.end_offset)
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
            self._outbox.received = Received(base_offset, self._log.end_offset, self.epoch, batches)
        if scanned.problem:
            self._warn("The leader %s of the quorum sent %s", self.leader_id, scanned.problem)
            return False
        self._log.commit(answered.high_watermark)
        return True

    def _read_snapshot(self, fetching: Fetching, answered: Any) -> bool:
        part = fetching.received(answered.position, answered.unaligned_records or b"", answered.size)
        if part is None:
            fetching.download = None
            return False
        self._outbox.snapshot_parts.append(part)
        if part.position + len(part.data) == answered.size:
            fetching.download = None
            self._log.begin_behind(part.snapshot)
            self._outbox.begin_behind = part.snapshot
        return True
