"""Leader state of one epoch: follower progress, held Fetches, the high watermark, and the check for a quorum.

The offset of a Fetch is the end of its sender's log, so everything below it is stored there; nothing else moves a
voter's position. A Fetch is answered at once if there are records, a high watermark that the follower does not know, or
a diverging epoch or snapshot; else it is held until there is, or until its wait time has passed.

The leader commits what a majority has stored, once that includes an entry of its own epoch; earlier entries are
committed with it (Raft section 5.4.2). If no majority has fetched for 1.5 fetch timeouts, it resigns: the others may
have a newer leader (Ongaro's thesis, section 6.2). Kafka: `LeaderState`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from controller.raft.election import Calls, successors
from controller.raft.log import SnapshotId
from controller.raft.messages import LogRead, ReplicaProgress, Response, SnapshotRead, Timing
from controller.raft.wire import LeaderAndEpoch, fetch_response, snapshot_response
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from controller.raft.log import RaftLog
    from controller.raft.voters import VoterSet
    from protocol.messages.fetch import FetchRequest
    from protocol.messages.fetch_snapshot import FetchSnapshotRequest

# An observer that has not fetched for this long is dropped; above `_MOST_OBSERVERS`, so is the one that fetched longest
# ago.
_OBSERVER_EXPIRES_MS = 300_000
_MOST_OBSERVERS = 1000

# Upper limit of a Fetch's `max_wait_ms`: its sender may be gone.
_MOST_WAIT_MS = 5000


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


class LeaderState:
    """One epoch of leadership."""

    def __init__(self, node_id: int, voters: VoterSet, epoch: int, log: RaftLog, timing: Timing, now_ms: int) -> None:
        """Start the epoch at the end of `log`, all of which is stored."""
        self.epoch_start = log.end_offset
        self.begin_calls = Calls((voter_id for voter_id in voters.by_id if voter_id != node_id), now_ms)
        self._known = LeaderAndEpoch(node_id, epoch)
        self._log = log
        self._timing = timing
        self._began_ms = now_ms
        self._stored = log.end_offset
        self._progress: dict[int, FollowerProgress] = {}
        self._held: list[HeldFetch] = []

    def count_own(self, end_offset: int) -> None:
        """Record that this node has stored its log up to `end_offset`."""
        self._stored = end_offset

    def commit(self, voters: VoterSet) -> bool:
        """Advance the high watermark to what a majority has stored; return whether it moved.

        It stays until an entry of this epoch is stored by a majority.
        """
        offsets = {node_id: progress.end_offset for node_id, progress in self._progress.items()}
        committed = voters.majority_offset({**offsets, self._known.leader_id: self._stored})
        return committed > self.epoch_start and self._log.commit(committed)

    def quorum_until_ms(self, voters: VoterSet) -> int | None:
        """Return when leadership ends unless a majority fetches; None for a quorum of one."""
        others = [voter_id for voter_id in voters.by_id if voter_id != self._known.leader_id]
        needed = voters.majority - 1
        if not needed:
            return None
        heard = sorted((self._heard_ms(voter_id) for voter_id in others), reverse=True)
        return heard[needed - 1] + self._timing.fetch_timeout_ms * 3 // 2

    def _heard_ms(self, voter_id: int) -> int:
        progress = self._progress.get(voter_id)
        return self._began_ms if progress is None or progress.fetched_ms is None else progress.fetched_ms

    def has_heard(self, voter_id: int, since_ms: int) -> bool:
        """Return whether the voter has fetched since `since_ms`."""
        progress = self._progress.get(voter_id)
        return progress is not None and progress.fetched_ms is not None and progress.fetched_ms >= since_ms

    def due_ms(self) -> int | None:
        """Return when the next held Fetch expires."""
        return min((held.due_ms for held in self._held), default=None)

    def fetch(self, token: object, request: FetchRequest, asked: Any, voters: VoterSet, now_ms: int) -> list[Response]:
        """Answer a Fetch or hold it; return the answers to send."""
        log = self._log
        replica_id = request.replica_state.replica_id if request.replica_id < 0 else request.replica_id
        instead = log.compare(asked.fetch_offset, asked.last_fetched_epoch)
        # A follower has one outstanding Fetch: complete an earlier one without records.
        answers = [self._empty(held) for held in self._take_held(lambda held: held.replica_id == replica_id >= 0)]
        if replica_id >= 0:
            progress = self._progress_of(replica_id, asked.replica_directory_id, voters)
            if instead is None:
                progress.fetched(asked.fetch_offset, log.end_offset, now_ms)
            else:
                progress.fetched_ms = now_ms
        if instead is not None:
            return [*answers, Response(token, self._response(instead))]
        max_bytes = max(0, min(request.max_bytes, asked.partition_max_bytes))
        if asked.fetch_offset < log.end_offset:
            return [*answers, Response(token, self._response(), LogRead(asked.fetch_offset, max_bytes))]
        due_ms = now_ms + min(request.max_wait_ms, _MOST_WAIT_MS)
        held = HeldFetch(token, replica_id, asked.high_watermark, max_bytes, due_ms)
        if asked.high_watermark < log.high_watermark or due_ms <= now_ms:
            return [*answers, self._empty(held)]
        self._held.append(held)
        return answers

    def fetch_snapshot(
        self, token: object, request: FetchSnapshotRequest, asked: Any, voters: VoterSet, now_ms: int
    ) -> Response:
        """Return the answer to a FetchSnapshot."""
        snapshot = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        if asked.position < 0:
            return Response(token, snapshot_response(self._known, snapshot, error=ErrorCode.POSITION_OUT_OF_RANGE))
        if request.replica_id >= 0:
            self._progress_of(request.replica_id, asked.replica_directory_id, voters).fetched_ms = now_ms
        response = snapshot_response(self._known, snapshot, position=asked.position)
        return Response(token, response, SnapshotRead(snapshot, asked.position, max(0, request.max_bytes)))

    def _progress_of(self, replica_id: int, directory_id: bytes, voters: VoterSet) -> FollowerProgress:
        progress = self._progress.get(replica_id)
        if progress is None and replica_id not in voters:
            self._make_room(voters)
        if progress is None or progress.directory_id != directory_id:
            progress = self._progress[replica_id] = FollowerProgress(directory_id)
        return progress

    def _make_room(self, voters: VoterSet) -> None:
        """Drop an observer if there are too many: observers' ids are not verified."""
        observers = [
            (progress.fetched_ms or 0, node_id) for node_id, progress in self._progress.items() if node_id not in voters
        ]
        if len(observers) >= _MOST_OBSERVERS:
            del self._progress[min(observers)[1]]

    def _response(self, instead: Any = None) -> Any:
        log = self._log
        return fetch_response(
            self._known, high_watermark=log.high_watermark, log_start_offset=log.start_offset, instead=instead
        )

    def _empty(self, held: HeldFetch) -> Response:
        return Response(held.token, self._response())

    def _take_held(self, which: Callable[[HeldFetch], bool]) -> list[HeldFetch]:
        taken = [held for held in self._held if which(held)]
        if taken:
            self._held = [held for held in self._held if not which(held)]
        return taken

    def appended(self, from_offset: int) -> list[Response]:
        """Return answers to all held Fetches with the records from `from_offset` on, the previous end of the log."""
        held_at_end, self._held = self._held, []
        return [Response(held.token, self._response(), LogRead(from_offset, held.max_bytes)) for held in held_at_end]

    def committed(self) -> list[Response]:
        """Return answers to the held Fetches that do not know the high watermark."""
        return [
            self._empty(held) for held in self._take_held(lambda held: held.high_watermark < self._log.high_watermark)
        ]

    def expired(self, now_ms: int) -> list[Response]:
        """Return answers to the held Fetches whose wait time has passed."""
        return [self._empty(held) for held in self._take_held(lambda held: held.due_ms <= now_ms)]

    def end(self) -> list[object]:
        """Return the tokens of all held Fetches, to be answered NOT_LEADER_OR_FOLLOWER."""
        tokens: list[object] = [held.token for held in self._held]
        self._held = []
        return tokens

    def successors(self, voters: VoterSet) -> list[int]:
        """Return the other voters, longest log first."""
        others = [voter_id for voter_id in voters.by_id if voter_id != self._known.leader_id]
        return successors([(voter_id, self._end_offset(voter_id)) for voter_id in others])

    def _end_offset(self, voter_id: int) -> int:
        progress = self._progress.get(voter_id)
        return -1 if progress is None else progress.end_offset

    def voters(self, voters: VoterSet, now_ms: int) -> tuple[ReplicaProgress, ...]:
        """Return the replication state of the voters."""
        return tuple(
            self._own(voters) if voter_id == self._known.leader_id else self._replica(voter_id, now_ms)
            for voter_id in voters.by_id
        )

    def observers(self, voters: VoterSet, now_ms: int) -> tuple[ReplicaProgress, ...]:
        """Return the replication state of the observers; drop those that have not fetched for 5 min."""
        expired = [
            node_id
            for node_id, progress in self._progress.items()
            if node_id not in voters and now_ms - (progress.fetched_ms or 0) > _OBSERVER_EXPIRES_MS
        ]
        for node_id in expired:
            del self._progress[node_id]
        return tuple(self._replica(node_id, now_ms) for node_id in sorted(self._progress) if node_id not in voters)

    def _own(self, voters: VoterSet) -> ReplicaProgress:
        node_id = self._known.leader_id
        return ReplicaProgress(node_id, voters.by_id[node_id].directory_id, self._log.end_offset, 0, 0)

    def _replica(self, node_id: int, now_ms: int) -> ReplicaProgress:
        progress = self._progress.get(node_id) or FollowerProgress(bytes(16))
        fetched_ms, caught_up_ms = progress.fetched_ms, progress.caught_up_ms
        return ReplicaProgress(
            node_id,
            progress.directory_id,
            progress.end_offset,
            None if fetched_ms is None else now_ms - fetched_ms,
            None if caught_up_ms is None else now_ms - caught_up_ms,
        )
