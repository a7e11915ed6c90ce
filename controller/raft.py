"""The quorum's consensus: one node's part of Raft, as KRaft tells it (KIP-595), in the shape of etcd's.

The node does nothing itself. It is told what happened, and `ready` gives what is to be done, in this order:

    quorum_state    replace the stored one, durably
    entries         append to the metadata log, durably
    high_watermark  apply every entry below it

When the first two are done, `advance` tells the node so; only then does what follows from them hold: a vote counts once
it is stored, an entry once it is synced. One Ready is out at a time, and what happens meanwhile goes into the next.

    role         event                       becomes
    unattached   campaign                    candidate: next epoch, votes for itself
    candidate    a majority voted            leader: begins its epoch with a LeaderChange entry

A leader commits what a majority of the voters has stored, provided that its own epoch's first entry is among it (Raft
section 5.4.2): until then, it serves nothing. The voter of a quorum of one is a majority by itself, and goes through
these steps without anybody else's messages.

What entries contain is none of Raft's business but for its own control records. How they become bytes is in
`batches.py`; files are the driver's.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.raft_messages import NOBODY, Entry, Quorum, QuorumState, Ready, Role
from controller.voters import VoterSet
from protocol.errors import ErrorCode, InvariantError, KafkaError
from protocol.records.control import KRaftVersionRecord, LeaderChangeMessage
from protocol.schema import Message

__all__ = ["NOBODY", "Entry", "Quorum", "QuorumState", "RaftNode", "Ready", "Role"]


class RaftNode:
    """One voter of the quorum."""

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
    ) -> None:
        """Begin with what is stored: the log ends at `end_offset`, with an entry of `end_epoch`.

        Everything below `high_watermark`, the end of the newest snapshot, is known to be committed. Unless the
        voters are `voters_in_log`, the first leader writes them there.
        """
        if node_id not in voters:
            raise ValueError(f"node {node_id} is not one of the voters {sorted(voters.by_id)}")
        self.node_id = node_id
        self.voters = voters
        self.role = Role.UNATTACHED
        self.quorum_state = quorum_state
        self.high_watermark = high_watermark
        self._kraft_version = kraft_version
        self._voters_in_log = voters_in_log
        self._end_epoch = end_epoch
        self._end_offset = end_offset
        self._epoch_start = end_offset
        self._votes: set[int] = set()
        self._stored: dict[int, int] = {}
        # What the next Ready will contain.
        self._entries: list[Entry] = []
        self._state_changed = False
        self._announced = high_watermark

    @property
    def epoch(self) -> int:
        """Return the current epoch."""
        return self.quorum_state.epoch

    @property
    def end_offset(self) -> int:
        """Return the offset that the next proposed record gets."""
        return self._end_offset

    def quorum(self) -> Quorum:
        """Return what this leader knows; KafkaError NOT_LEADER_OR_FOLLOWER if it is none."""
        if self.role is not Role.LEADER:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {self.node_id} does not lead the quorum")
        voters = tuple((voter, self._stored.get(voter_id, 0)) for voter_id, voter in self.voters.by_id.items())
        return Quorum(self.node_id, self.epoch, self.high_watermark, voters)

    def campaign(self) -> None:
        """Ask to lead, in a new epoch."""
        self.role = Role.CANDIDATE
        self._votes = set()
        # The log may know of a later epoch than a quorum state that was lost.
        self._set_state(
            QuorumState(
                max(self.epoch, self._end_epoch) + 1,
                voted_id=self.node_id,
                voted_directory_id=self.voters.by_id[self.node_id].directory_id,
            )
        )

    def propose(self, records: Sequence[Message]) -> Entry:
        """Append records to the log of the leader; they hold once the high watermark has passed them.

        KafkaError NOT_CONTROLLER if this node does not lead.
        """
        if self.role is not Role.LEADER:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self.node_id} does not lead the quorum")
        entry = Entry(self._end_offset, self.epoch, tuple(records))
        self._entries.append(entry)
        self._end_offset = entry.next_offset
        self._end_epoch = entry.epoch
        return entry

    def ready(self) -> Ready | None:
        """Return what is to be done; None if there is nothing."""
        if not (self._state_changed or self._entries or self.high_watermark > self._announced):
            return None
        ready = Ready(self.quorum_state if self._state_changed else None, tuple(self._entries), self.high_watermark)
        self._state_changed = False
        self._entries = []
        self._announced = self.high_watermark
        return ready

    def withdraw(self, entries: Sequence[Entry]) -> bool:
        """Take back proposals that could not be stored, the last that `ready` gave; False if that cannot be.

        Only the voter of a quorum of one can, others may have stored what their leader has not; and an epoch's first
        entry is never taken back.
        """
        first, last = entries[0], entries[-1]
        newest = not self._entries and last.next_offset == self._end_offset
        if len(self.voters.by_id) > 1 or not newest or first.base_offset <= self._epoch_start:
            return False
        self._end_offset = first.base_offset
        return True

    def advance(self, ready: Ready) -> None:
        """Take note that the state and the entries of `ready` are durable."""
        state = ready.quorum_state
        if state is not None and self.role is Role.CANDIDATE and state.epoch == self.epoch:
            self._count_vote(state.voted_id)
        if ready.entries:
            self._count_stored(self.node_id, ready.entries[-1].next_offset)

    def _count_vote(self, voter_id: int) -> None:
        self._votes.add(voter_id)
        if self.voters.has_majority(self._votes):
            self._lead()

    def _lead(self) -> None:
        self.role = Role.LEADER
        self._set_state(QuorumState(self.epoch, leader_id=self.node_id))
        self._stored = {self.node_id: self._end_offset}
        self._epoch_start = self._end_offset
        records: list[Message] = [self._leader_change()]
        if self._kraft_version > 0 and not self._voters_in_log:
            records += [KRaftVersionRecord(version=0, kraft_version=self._kraft_version), self.voters.to_record()]
        self.propose(records)

    def _leader_change(self) -> LeaderChangeMessage:
        return LeaderChangeMessage(
            version=0,
            leader_id=self.node_id,
            voters=[LeaderChangeMessage.Voter(voter_id=voter_id) for voter_id in self.voters.by_id],
            granting_voters=[LeaderChangeMessage.Voter(voter_id=voter_id) for voter_id in sorted(self._votes)],
        )

    def _count_stored(self, voter_id: int, end_offset: int) -> None:
        if end_offset > self._end_offset:
            raise InvariantError(f"voter {voter_id} has offset {end_offset} of a log that ends at {self._end_offset}")
        self._stored[voter_id] = end_offset
        committed = self.voters.majority_offset(self._stored)
        if committed > self._epoch_start:
            self.high_watermark = max(self.high_watermark, committed)

    def _set_state(self, state: QuorumState) -> None:
        self.quorum_state = state
        self._state_changed = True
