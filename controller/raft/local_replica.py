"""The state of a node that outlasts its roles: identity, log, voters, timeouts, clock and the pending Ready.

Every role reads and extends it. Each change of the log goes through it, so that the voters follow the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from controller.raft.election import backoff_ms
from controller.raft.log import Entry
from controller.raft.messages import OutboundRequest
from controller.raft.pending_ready import PendingReady

if TYPE_CHECKING:
    from random import Random

    from controller.raft.log import RaftEpochEnd, RaftLog, SnapshotId
    from controller.raft.messages import RaftRequest, Timing
    from controller.raft.voter_history import VoterHistory
    from controller.raft.voters import VoterSet
    from controller.raft.wire import ReplicaKey
    from protocol.schema import Message

# Use a tenth of the election timeout at start-up and after a reported leader loss.
_SHORT_TIMEOUT_DIVISOR = 10

_MAX_WARNINGS_PER_TEXT = 10


class LocalReplica:
    """This node in any role; `now_ms` is the time of the event that is being processed."""

    def __init__(
        self,
        key: ReplicaKey,
        voter_history: VoterHistory,
        log: RaftLog,
        *,
        timing: Timing,
        random: Random | None,
        now_ms: int,
    ) -> None:
        self.key = key
        self.node_id = key.node_id
        self.voter_history = voter_history
        self.log = log
        self.timing = timing
        self.now_ms = now_ms
        self.pending = PendingReady(log.high_watermark)
        self.stopping = False
        """Set before a controlled stop: this node starts no more elections."""
        self.lost_elections = 0
        """Elections lost since a leader was known."""
        self._random = random
        self._warned: defaultdict[str, set[str]] = defaultdict(set)

    @property
    def voters(self) -> VoterSet:
        """Return the voters at the log end."""
        return self.voter_history.voters

    @property
    def is_voter(self) -> bool:
        """Return whether this node is a voter."""
        return self.node_id in self.voters

    @property
    def may_campaign(self) -> bool:
        """Return whether this node may start elections."""
        return self.is_voter and not self.stopping

    @property
    def other_voters(self) -> list[int]:
        """Return the ids of the other voters."""
        return [voter_id for voter_id in self.voters.by_id if voter_id != self.node_id]

    # Times: each call can draw a random number.

    def jitter(self, limit: int) -> int:
        """Return a random number from 0 to below `limit`."""
        return int(limit * self._random.random()) if self._random is not None else 0

    def election_timeout(self) -> int:
        """Return when an election timeout that starts now ends: after a random 1 to 2 times its setting."""
        timeout_ms = self.timing.election_timeout_ms
        return self.now_ms + timeout_ms + self.jitter(timeout_ms)

    def short_election_timeout(self) -> int:
        """Return when a tenth of an election timeout ends; the only voter of a quorum need not wait."""
        if self.is_voter and len(self.voters.by_id) == 1:
            return self.now_ms
        short_ms = self.timing.election_timeout_ms // _SHORT_TIMEOUT_DIVISOR
        return self.now_ms + short_ms + self.jitter(short_ms)

    def election_backoff(self) -> int:
        """Count a lost election; return when the next one may start."""
        self.lost_elections += 1
        fraction = self.jitter(1 << 20) / (1 << 20)
        return self.now_ms + backoff_ms(self.lost_elections, self.timing.election_backoff_max_ms, fraction)

    # The log

    def append(self, epoch: int, records: Sequence[Message]) -> Entry:
        """Append records as the leader of `epoch`; return them as an entry."""
        entry = Entry(self.log.end_offset, epoch, tuple(records))
        self._appended(entry)
        self.pending.entries.append(entry)
        return entry

    def append_received(self, entries: Sequence[Entry]) -> None:
        """Append a leader's entries."""
        for entry in entries:
            self._appended(entry)

    def _appended(self, entry: Entry) -> None:
        self.log.append(entry.epoch, entry.next_offset)
        self.voter_history.append(entry.base_offset, entry.records)

    def truncate(self, leader_end: RaftEpochEnd) -> None:
        """Truncate to the common prefix with the leader's log, in which an epoch ends at `leader_end`."""
        self.pending.truncate_to = self.log.truncate(leader_end)
        self.voter_history.truncate(self.log.end_offset)

    def withdraw(self, from_offset: int) -> None:
        """Remove the entries from `from_offset` on, which were never stored."""
        self.log.truncate_to(from_offset)
        self.voter_history.truncate(from_offset)

    def reset_to_snapshot(self, snapshot: SnapshotId) -> None:
        """Replace the log by a snapshot. Until its contents are read, the present voters count as its voters."""
        self.log.reset_to_snapshot(snapshot)
        self.pending.reset_to_snapshot = snapshot
        history = self.voter_history
        history.truncate(snapshot.end_offset)
        history.load_snapshot(snapshot.end_offset, history.voters, history.kraft_version)

    # Other nodes and the operator

    def send(self, to: int, message: RaftRequest) -> OutboundRequest:
        """Send a request; return it."""
        request = OutboundRequest(to, message)
        self.pending.requests.append(request)
        return request

    def warn(self, text: str, *values: object) -> None:
        """Log a warning once; at most ten of one `text`, as other nodes can cause any number of different ones."""
        logged, warning = self._warned[text], text % values
        if warning not in logged and len(logged) < _MAX_WARNINGS_PER_TEXT:
            logged.add(warning)
            self.pending.warnings.append(warning)
