"""Leader state of one epoch: follower progress, held Fetches, the high watermark, and the check for a quorum.

The offset of a Fetch is the end of its sender's log, so everything below it is stored there; nothing else moves a
voter's position. A Fetch is answered at once if there are records, a high watermark that the follower does not know, or
a diverging epoch or snapshot; else it is held until there is, or until its wait time has passed.

The leader commits what a majority has stored, once that includes an entry of its own epoch; earlier entries are
committed with it (Raft section 5.4.2), and until then it serves nothing. If no majority has fetched for 1.5 fetch
timeouts, it resigns: the others may have a newer leader (Ongaro's thesis, section 6.2). Kafka: `LeaderState`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from controller.raft.election import RequestManager
from controller.raft.epoch_state import EpochState, Transition, earliest
from controller.raft.log import Entry, RaftEpochEnd, SnapshotId
from controller.raft.messages import NO_NODE, LogRead, ReplicaProgress, Response, Role, SnapshotRead
from controller.raft.voters import NO_DIRECTORY
from controller.raft.wire import LeaderAndEpoch, begin_request, fetch_response, snapshot_response
from protocol.errors import ErrorCode, InvariantError
from protocol.records.control import KRaftVersionRecord, LeaderChangeMessage

if TYPE_CHECKING:
    from controller.raft.local_replica import LocalReplica
    from controller.raft.messages import ElectionState, OutboundRequest
    from controller.raft.voters import Voter
    from controller.raft.wire import FetchPartition, FetchSnapshotPartition, ResponseHeader
    from protocol.messages.fetch import FetchRequest, FetchResponse
    from protocol.messages.fetch_snapshot import FetchSnapshotRequest
    from protocol.schema import Message

# An observer that has not fetched for this long is dropped; above `_MAX_OBSERVERS`, so is the one that fetched longest
# ago.
_OBSERVER_EXPIRES_MS = 300_000
_MAX_OBSERVERS = 1000

# Upper limit of a Fetch's `max_wait_ms`: its sender may be gone.
_MAX_WAIT_MS = 5000


class HeldFetch(NamedTuple):
    """A Fetch that waits for records or a new high watermark."""

    token: object
    replica_id: int
    high_watermark: int
    max_bytes: int
    due_ms: int


class FollowerProgress:
    """Fetch progress of one follower (Kafka: `LeaderState.ReplicaState`)."""

    __slots__ = ("caught_up_ms", "directory_id", "end_offset", "fetched_ms", "leader_end_offset")

    def __init__(self, directory_id: bytes) -> None:
        self.directory_id = directory_id
        self.end_offset = -1
        self.fetched_ms: int | None = None
        self.caught_up_ms: int | None = None
        # End of the leader's log at the last Fetch.
        self.leader_end_offset = -1

    def fetched(self, end_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Record a Fetch at `end_offset`.

        The follower was caught up at the last Fetch if it now has what the leader's log had then.
        """
        if end_offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif end_offset >= self.leader_end_offset and self.fetched_ms is not None:
            self.caught_up_ms = max(self.caught_up_ms or self.fetched_ms, self.fetched_ms)
        self.end_offset = end_offset
        self.fetched_ms = now_ms
        self.leader_end_offset = leader_end_offset


class LeaderState(EpochState):
    """One epoch of leadership; all of the log is stored when it starts."""

    role = Role.LEADER

    def __init__(self, replica: LocalReplica, election: ElectionState) -> None:
        super().__init__(replica, election, None)
        self.epoch_start = replica.log.end_offset
        """The offset of the first entry of this epoch."""
        self._begin_requests = RequestManager(replica.other_voters, replica.now_ms)
        self._log = replica.log
        self._leader_and_epoch = LeaderAndEpoch(replica.node_id, election.epoch)
        self._began_ms = replica.now_ms
        self._stored = replica.log.end_offset
        self._progress: dict[int, FollowerProgress] = {}
        self._held: list[HeldFetch] = []

    @property
    def leader_id(self) -> int:
        """Return this node's id."""
        return self._replica.node_id

    @property
    def due_ms(self) -> int | None:
        """Return when a held Fetch expires, a BeginQuorumEpoch is due, or leadership ends without a majority."""
        held_ms = min((held.due_ms for held in self._held), default=None)
        return earliest(held_ms, self._begin_requests.due_ms, self.check_quorum_due_ms())

    # The log

    def begin(self, granted: Collection[int]) -> None:
        """Append the first entry of the epoch: LeaderChange, and the voters if they can change and the log has none."""
        history = self._replica.voter_history
        change = LeaderChangeMessage(
            version=0,
            leader_id=self._replica.node_id,
            voters=[LeaderChangeMessage.Voter(voter_id=voter_id) for voter_id in history.voters.by_id],
            granting_voters=[LeaderChangeMessage.Voter(voter_id=voter_id) for voter_id in sorted(granted)],
        )
        records: list[Message] = [change]
        if history.kraft_version > 0 and not history.is_in_log:
            version = KRaftVersionRecord(version=0, kraft_version=history.kraft_version)
            records += [version, history.voters.to_record()]
        self.append(records)

    def append(self, records: Sequence[Message]) -> Entry:
        """Append records and answer all held Fetches with them; return their entry."""
        entry = self._replica.append(self.epoch, records)
        held_at_end, self._held = self._held, []
        for held in held_at_end:
            self._respond(held.token, self._fetch_response(), LogRead(entry.base_offset, held.max_bytes))
        return entry

    def stored(self, end_offset: int) -> None:
        """Record that this node has stored its log up to `end_offset`."""
        if end_offset > self._log.end_offset:
            raise InvariantError(f"stored up to offset {end_offset}, beyond the end of {self._log!r}")
        self.count_own(end_offset)
        self._commit_and_complete()

    def count_own(self, end_offset: int) -> None:
        """Count this node's log up to `end_offset` for the majority."""
        self._stored = end_offset

    def commit(self) -> bool:
        """Advance the high watermark to what a majority has stored; return whether it moved.

        It stays until an entry of this epoch is stored by a majority.
        """
        offsets = {node_id: progress.end_offset for node_id, progress in self._progress.items()}
        committed = self._replica.voters.majority_offset({**offsets, self._replica.node_id: self._stored})
        return committed > self.epoch_start and self._log.commit(committed)

    def _commit_and_complete(self) -> None:
        if self.commit():
            self._complete_held(lambda held: held.high_watermark < self._log.high_watermark)

    # The quorum

    def check_quorum_due_ms(self) -> int | None:
        """Return when leadership ends unless a majority fetches; None for a quorum of one."""
        needed = self._replica.voters.majority - 1
        if not needed:
            return None
        fetched_ms = sorted((self._fetched_ms(voter_id) for voter_id in self._replica.other_voters), reverse=True)
        return fetched_ms[needed - 1] + self._replica.timing.fetch_timeout_ms * 3 // 2

    def _fetched_ms(self, voter_id: int) -> int:
        progress = self._progress.get(voter_id)
        return self._began_ms if progress is None or progress.fetched_ms is None else progress.fetched_ms

    def check_deadlines(self) -> Transition | None:
        """Return RESIGN if no majority fetches; else answer the held Fetches whose wait time has passed."""
        now_ms, until_ms = self._replica.now_ms, self.check_quorum_due_ms()
        if until_ms is not None and now_ms >= until_ms:
            return Transition.RESIGN
        self._complete_held(lambda held: held.due_ms <= now_ms)
        return None

    def send_due(self) -> None:
        """Send BeginQuorumEpoch to the voters that have not fetched for half a fetch timeout."""
        replica, requests = self._replica, self._begin_requests
        interval_ms = replica.timing.fetch_timeout_ms // 2
        for voter_id in requests.due(replica.now_ms):
            progress = self._progress.get(voter_id)
            fetched_ms = None if progress is None else progress.fetched_ms
            if fetched_ms is not None and fetched_ms >= replica.now_ms - interval_ms:
                requests.schedule(voter_id, replica.now_ms + interval_ms)
            else:
                by_id = replica.voters.by_id
                request = begin_request(replica.key, by_id[voter_id], self.epoch, by_id[replica.node_id])
                requests.sent(replica.send(voter_id, request))

    def request_ended(self, request: OutboundRequest) -> bool:
        """Record the end of a BeginQuorumEpoch."""
        return self._begin_requests.request_ended(request)

    def response_received(self, request: OutboundRequest, response: ResponseHeader | None) -> Transition | None:
        """Schedule the next BeginQuorumEpoch; a voter that comes back finds the leader earlier, by its own Fetch."""
        wait_ms = self._replica.timing.fetch_timeout_ms // (8 if response is None else 2)
        self._begin_requests.schedule(request.to, self._replica.now_ms + wait_ms)
        return None

    def grants_pre_vote(self, _candidate_id: int) -> bool:
        """Return False: there is a leader."""
        return False

    def stop_campaigning(self) -> Transition | None:
        """Return RESIGN."""
        return Transition.RESIGN

    def leave(self) -> None:
        """Answer all held Fetches NOT_LEADER_OR_FOLLOWER."""
        refused = fetch_response(LeaderAndEpoch(NO_NODE, self.epoch), error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for held in self._held:
            self._respond(held.token, refused)

    # Requests of followers

    def handle_fetch_request(self, token: object, request: FetchRequest, partition: FetchPartition) -> None:
        """Answer a Fetch, or hold it; record the follower's position."""
        log, now_ms = self._log, self._replica.now_ms
        replica_id = request.replica_state.replica_id if request.replica_id < 0 else request.replica_id
        divergence = log.compare(partition.fetch_offset, partition.last_fetched_epoch)
        # A follower has one outstanding Fetch: complete an earlier one without records.
        self._complete_held(lambda held: held.replica_id == replica_id >= 0)
        if replica_id >= 0:
            progress = self._progress_of(replica_id, partition.replica_directory_id)
            if divergence is None:
                progress.fetched(partition.fetch_offset, log.end_offset, now_ms)
            else:
                progress.fetched_ms = now_ms
        max_bytes = max(0, min(request.max_bytes, partition.partition_max_bytes))
        due_ms = now_ms + min(request.max_wait_ms, _MAX_WAIT_MS)
        if divergence is not None:
            self._respond(token, self._fetch_response(divergence))
        elif partition.fetch_offset < log.end_offset:
            self._respond(token, self._fetch_response(), LogRead(partition.fetch_offset, max_bytes))
        elif partition.high_watermark < log.high_watermark or due_ms <= now_ms:
            self._respond(token, self._fetch_response())
        else:
            self._held.append(HeldFetch(token, replica_id, partition.high_watermark, max_bytes, due_ms))
        self._commit_and_complete()

    def handle_fetch_snapshot_request(
        self, token: object, request: FetchSnapshotRequest, partition: FetchSnapshotPartition
    ) -> None:
        """Answer a FetchSnapshot."""
        snapshot = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        if partition.position < 0:
            error = ErrorCode.POSITION_OUT_OF_RANGE
            self._replica.pending.responses.append(
                Response(token, snapshot_response(self._leader_and_epoch, snapshot, error=error))
            )
            return
        if request.replica_id >= 0:
            progress = self._progress_of(request.replica_id, partition.replica_directory_id)
            progress.fetched_ms = self._replica.now_ms
        response = snapshot_response(self._leader_and_epoch, snapshot, position=partition.position)
        read = SnapshotRead(snapshot, partition.position, max(0, request.max_bytes))
        self._replica.pending.responses.append(Response(token, response, read))

    def _respond(self, token: object, response: FetchResponse, read: LogRead | None = None) -> None:
        self._replica.pending.responses.append(Response(token, response, read))

    def _fetch_response(self, divergence: RaftEpochEnd | SnapshotId | None = None) -> FetchResponse:
        log = self._log
        return fetch_response(
            self._leader_and_epoch,
            high_watermark=log.high_watermark,
            log_start_offset=log.start_offset,
            divergence=divergence,
        )

    def _complete_held(self, which: Callable[[HeldFetch], bool]) -> None:
        """Answer held Fetches without records."""
        completed = [held for held in self._held if which(held)]
        if completed:
            self._held = [held for held in self._held if not which(held)]
        for held in completed:
            self._respond(held.token, self._fetch_response())

    # Followers

    def _progress_of(self, replica_id: int, directory_id: bytes) -> FollowerProgress:
        progress = self._progress.get(replica_id)
        if progress is None and replica_id not in self._replica.voters:
            self._evict_observer()
        if progress is None or progress.directory_id != directory_id:
            progress = self._progress[replica_id] = FollowerProgress(directory_id)
        return progress

    def _evict_observer(self) -> None:
        """Drop an observer if there are too many: observers' ids are not verified."""
        voters = self._replica.voters
        observers = [
            (progress.fetched_ms or 0, node_id) for node_id, progress in self._progress.items() if node_id not in voters
        ]
        if len(observers) >= _MAX_OBSERVERS:
            del self._progress[min(observers)[1]]

    def successors(self) -> list[Voter]:
        """Return the other voters in order of preference: longest log first, then lowest id."""
        progress = self._progress
        end_offsets = {
            voter_id: progress[voter_id].end_offset if voter_id in progress else -1
            for voter_id in self._replica.other_voters
        }
        ordered = sorted(end_offsets, key=lambda voter_id: (-end_offsets[voter_id], voter_id))
        return [self._replica.voters.by_id[voter_id] for voter_id in ordered]

    def voters(self, now_ms: int) -> tuple[ReplicaProgress, ...]:
        """Return the replication state of the voters."""
        return tuple(
            ReplicaProgress(voter_id, voter.directory_id, self._log.end_offset, 0, 0)
            if voter_id == self._replica.node_id
            else self._replica_progress(voter_id, now_ms)
            for voter_id, voter in self._replica.voters.by_id.items()
        )

    def observers(self, now_ms: int) -> tuple[ReplicaProgress, ...]:
        """Return the replication state of the observers; drop those that have not fetched for 5 min."""
        voters = self._replica.voters
        expired = [
            node_id
            for node_id, progress in self._progress.items()
            if node_id not in voters and now_ms - (progress.fetched_ms or 0) > _OBSERVER_EXPIRES_MS
        ]
        for node_id in expired:
            del self._progress[node_id]
        return tuple(
            self._replica_progress(node_id, now_ms) for node_id in sorted(self._progress) if node_id not in voters
        )

    def _replica_progress(self, node_id: int, now_ms: int) -> ReplicaProgress:
        progress = self._progress.get(node_id) or FollowerProgress(NO_DIRECTORY)
        fetched_ms, caught_up_ms = progress.fetched_ms, progress.caught_up_ms
        return ReplicaProgress(
            node_id,
            progress.directory_id,
            progress.end_offset,
            None if fetched_ms is None else now_ms - fetched_ms,
            None if caught_up_ms is None else now_ms - caught_up_ms,
        )
