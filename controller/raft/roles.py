"""Roles of a Raft node: its state in each role, the transitions, and the actions on timeouts.

The table of `node.py` has the transitions. On entering a role, a node drops the state of the previous one: votes,
followers, and the outstanding Fetch. `quorum_state` survives restarts; it changes with the epoch, with a vote, and when
the leader becomes known (Kafka: `QuorumState`, `EpochState`).

    role         deadline                                           until then
    unattached   election timeout, at random up to twice as long    sends Fetch to any voter to find the leader
    prospective  the same                                           requests pre-votes
    candidate    the same                                           requests votes
    leader       1.5 fetch timeouts without a majority's Fetch      sends BeginQuorumEpoch to voters that do not fetch
    follower     fetch timeout; less if the leader is suspected     fetches
    observer     fetch timeout                                      fetches
    resigned     as unattached                                      is idle
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from controller.raft.election import Ballot, backoff_ms
from controller.raft.follower import FollowerState
from controller.raft.leader import LeaderState
from controller.raft.log import Entry, RaftLog
from controller.raft.messages import NO_NODE, OutboundRequest, QuorumState, RaftRequest, Response, Role, Timing
from controller.raft.pending_ready import PendingReady
from controller.raft.voters import Voter, VoterSet
from controller.raft.wire import (
    LeaderAndEpoch,
    ReplicaKey,
    begin_request,
    end_request,
    fetch_request,
    fetch_response,
    snapshot_request,
    vote_request,
)
from protocol.errors import ErrorCode
from protocol.records.control import KRaftVersionRecord, LeaderChangeMessage
from protocol.schema import Message

if TYPE_CHECKING:
    from random import Random

# Use a tenth of the election timeout at start-up and after a reported leader loss.
_SOON_PART = 10

_MOST_OF_A_KIND = 10


class Member:
    """A node in its role."""

    def __init__(
        self,
        me: ReplicaKey,
        voters: VoterSet,
        quorum_state: QuorumState,
        log: RaftLog,
        *,
        kraft_version: int,
        voters_in_log: bool,
        timing: Timing,
        random: Random | None,
        now_ms: int,
    ) -> None:
        self.node_id = me.node_id
        self.voters = voters
        self.quorum_state = quorum_state
        self.timing = timing
        self._me = me
        self._log = log
        self._kraft_version = kraft_version
        self._voters_in_log = voters_in_log
        self._random = random
        self._outbox = PendingReady(log.high_watermark)
        self._now_ms = now_ms
        self._stopping = False
        self._losses = 0
        self._warned: defaultdict[str, set[str]] = defaultdict(set)
        self._ballot: Ballot | None = None
        self._leadership: LeaderState | None = None
        self._fetching: FollowerState | None = None
        self._enter(Role.UNATTACHED, self._soon_ms())
        leader_id = quorum_state.leader_id
        if leader_id in voters and leader_id != me.node_id:
            self._follow(quorum_state.epoch, leader_id)
            if self.is_voter:
                self._suspect()
        else:
            self._fetching = self._discovery()

    @property
    def epoch(self) -> int:
        """Return the current epoch."""
        return self.quorum_state.epoch

    @property
    def is_voter(self) -> bool:
        """Return whether this node is a voter."""
        return self.node_id in self.voters

    @property
    def leader_id(self) -> int:
        """Return the leader as this node knows it, or NOBODY."""
        if self.role is Role.LEADER:
            return self.node_id
        return self._fetching.leader_id if self._fetching is not None else NO_NODE

    @property
    def due_ms(self) -> int | None:
        """Return when the next Tick is due; None if only other events can cause actions."""
        times = [self._deadline_ms]
        if self._ballot is not None:
            times.append(self._ballot.calls.due_ms)
        if self._fetching is not None:
            times.append(self._fetching.due_ms)
        if self._leadership is not None:
            leadership = self._leadership
            times += [leadership.due_ms(), leadership.begin_calls.due_ms, leadership.quorum_until_ms(self.voters)]
        return min((time for time in times if time is not None), default=None)

    def _known(self) -> LeaderAndEpoch:
        return LeaderAndEpoch(self.leader_id, self.epoch)

    def _jitter(self, longest_ms: int) -> int:
        return int(longest_ms * self._random.random()) if self._random is not None else 0

    def _soon_ms(self) -> int:
        if self.is_voter and len(self.voters.by_id) == 1:
            return self._now_ms
        soon_ms = self.timing.election_timeout_ms // _SOON_PART
        return self._now_ms + soon_ms + self._jitter(soon_ms)

    def _election_ms(self) -> int:
        timeout_ms = self.timing.election_timeout_ms
        return self._now_ms + timeout_ms + self._jitter(timeout_ms)

    def _backoff_ms(self) -> int:
        self._losses += 1
        chance = self._jitter(1 << 20) / (1 << 20)
        return self._now_ms + backoff_ms(self._losses, self.timing.election_backoff_max_ms, chance)

    def _set_state(self, state: QuorumState) -> None:
        if state != self.quorum_state:
            self.quorum_state = state
            self._outbox.quorum_state = state

    def _enter(self, role: Role, deadline_ms: int | None) -> None:
        """Drop the state of the present role and enter `role`; held Fetches are answered NOT_LEADER_OR_FOLLOWER."""
        self.role = role
        stays_quiet = self._stopping or not self.is_voter
        self._deadline_ms = None if stays_quiet and role is not Role.OBSERVER else deadline_ms
        self._ballot = self._fetching = None
        if self._leadership is not None:
            tokens = self._leadership.end()
            self._leadership = None
            refused = fetch_response(self._known(), error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._outbox.answers += [Response(token, refused) for token in tokens]

    def _unattach(self, state: QuorumState, deadline_ms: int) -> None:
        """Enter UNATTACHED: no leader is known."""
        self._enter(Role.UNATTACHED, deadline_ms)
        self._set_state(state)
        self._fetching = self._discovery()

    def _discovery(self) -> FollowerState | None:
        others = self.voters.by_id.keys() - {self.node_id}
        return FollowerState(NO_NODE, self._now_ms) if others else None

    def _follow(self, epoch: int, leader_id: int) -> None:
        self._enter(Role.FOLLOWER if self.is_voter else Role.OBSERVER, self._now_ms + self.timing.fetch_timeout_ms)
        self._set_state(QuorumState(epoch, leader_id=leader_id))
        self._fetching = FollowerState(leader_id, self._now_ms)

    def _heard_of_leader(self) -> None:
        """Restart the fetch timeout: the leader is live."""
        if self._fetching is not None and self._fetching.leader_id != NO_NODE:
            self._fetching.heard = True
            self._losses = 0
            if self._deadline_ms is not None:
                self._deadline_ms = self._now_ms + self.timing.fetch_timeout_ms

    def _suspect(self, deadline_ms: int | None = None) -> None:
        """Suspect the leader: a follower shortens its fetch timeout, an observer looks for another leader at once."""
        if self.role is Role.OBSERVER:
            self._unattach(self.quorum_state, self._now_ms)
        elif self.role is Role.FOLLOWER and self._fetching is not None:
            self._fetching.heard = False
            if self._deadline_ms is not None:
                self._deadline_ms = min(self._deadline_ms, self._soon_ms() if deadline_ms is None else deadline_ms)

    def _prospect(self) -> None:
        """Request pre-votes."""
        self._enter(Role.PROSPECTIVE, self._election_ms())
        self._ballot = Ballot(self.voters, self.node_id, self._now_ms)
        self._ballot.granted.add(self.node_id)
        self._count_votes()

    def _stand(self) -> None:
        """Become a candidate in the next epoch; the vote for itself counts once it is stored."""
        self._enter(Role.CANDIDATE, self._election_ms())
        self._ballot = Ballot(self.voters, self.node_id, self._now_ms)
        self._set_state(
            QuorumState(
                # If the quorum state was lost, the log may have a later epoch.
                max(self.epoch, self._log.end_epoch) + 1,
                voted_id=self.node_id,
                voted_directory_id=self.voters.by_id[self.node_id].directory_id,
            )
        )

    def _count_votes(self) -> None:
        ballot = self._ballot
        if ballot is None:
            return
        if ballot.won(self.voters):
            if self.role is Role.PROSPECTIVE:
                self._stand()
            else:
                self._lead(ballot.granted)
        elif ballot.lost(self.voters):
            if self.role is Role.PROSPECTIVE:
                self._give_up()
            elif self._deadline_ms is not None:
                self._deadline_ms = min(self._deadline_ms, self._backoff_ms())

    def _give_up(self) -> None:
        """Return to the last known leader, or wait for one; the next pre-votes follow after the backoff."""
        leader_id = self.quorum_state.leader_id
        if leader_id in self.voters and leader_id != self.node_id:
            self._follow(self.epoch, leader_id)
            self._suspect(self._backoff_ms())
        else:
            self._unattach(self.quorum_state, self._backoff_ms())

    def _lead(self, granted: set[int]) -> None:
        self._enter(Role.LEADER, None)
        self._losses = 0
        self._set_state(QuorumState(self.epoch, leader_id=self.node_id))
        self._leadership = LeaderState(self.node_id, self.voters, self.epoch, self._log, self.timing, self._now_ms)
        records: list[Message] = [self._leader_change(granted)]
        if self._kraft_version > 0 and not self._voters_in_log:
            records += [KRaftVersionRecord(version=0, kraft_version=self._kraft_version), self.voters.to_record()]
        self._append(records)

    def _leader_change(self, granted: set[int]) -> LeaderChangeMessage:
        return LeaderChangeMessage(
            version=0,
            leader_id=self.node_id,
            voters=[LeaderChangeMessage.Voter(voter_id=voter_id) for voter_id in self.voters.by_id],
            granting_voters=[LeaderChangeMessage.Voter(voter_id=voter_id) for voter_id in sorted(granted)],
        )

    def _append(self, records: Sequence[Message]) -> Entry:
        """Append to the leader's log and answer the held Fetches."""
        entry = Entry(self._log.end_offset, self.epoch, tuple(records))
        self._log.append(entry.epoch, entry.next_offset)
        self._outbox.entries.append(entry)
        if self._leadership is not None:
            self._outbox.answers += self._leadership.appended(entry.base_offset)
        return entry

    def _resign(self) -> None:
        """Give up leadership and send EndQuorumEpoch with the preferred successors."""
        if self._leadership is None:
            return
        successors = [self.voters.by_id[voter_id] for voter_id in self._leadership.successors(self.voters)]
        self._enter(Role.RESIGNED, self._election_ms())
        for voter in successors:
            self._outbox.requests.append(OutboundRequest(voter.voter_id, end_request(self._me, self.epoch, successors)))

    def _pass_time(self) -> None:
        """Perform what is due at the current time."""
        if self._deadline_ms is not None and self._now_ms >= self._deadline_ms:
            if self.role is Role.PROSPECTIVE:
                self._give_up()
            elif self.role is Role.OBSERVER:
                self._unattach(self.quorum_state, self._now_ms)
            else:
                self._prospect()
        if self._leadership is not None:
            until_ms = self._leadership.quorum_until_ms(self.voters)
            if until_ms is not None and self._now_ms >= until_ms:
                self._resign()
            else:
                self._outbox.answers += self._leadership.expired(self._now_ms)
        self._send_due()

    def _send_due(self) -> None:
        now_ms = self._now_ms
        if self._ballot is not None:
            for voter_id in self._ballot.calls.due(now_ms):
                self._ballot.calls.sent(self._send(voter_id, self._vote_request(self.voters.by_id[voter_id])))
        if self._leadership is not None:
            self._tell_voters(self._leadership)
        fetching = self._fetching
        if fetching is not None and fetching.due_ms is not None and fetching.due_ms <= now_ms:
            to = fetching.leader_id if fetching.leader_id != NO_NODE else self._any_other_voter()
            fetching.sent(self._send(to, self._fetch_request(fetching)))

    def _send(self, to: int, message: RaftRequest) -> OutboundRequest:
        request = OutboundRequest(to, message)
        self._outbox.requests.append(request)
        return request

    def _vote_request(self, voter: Voter) -> RaftRequest:
        pre_vote = self.role is Role.PROSPECTIVE
        return vote_request(self._me, voter, self.epoch, self._log.end, pre_vote=pre_vote)

    def _fetch_request(self, fetching: FollowerState) -> RaftRequest:
        download = fetching.download
        if download is not None:
            return snapshot_request(self._me, self.epoch, download.snapshot, download.position, self.timing)
        return fetch_request(self._me, self.epoch, self._log.end, self._log.high_watermark, self.timing)

    def _any_other_voter(self) -> int:
        others = [voter_id for voter_id in self.voters.by_id if voter_id != self.node_id]
        return others[self._jitter(len(others))]

    def _tell_voters(self, leadership: LeaderState) -> None:
        """Send BeginQuorumEpoch to the voters that have not fetched for half a fetch timeout."""
        interval_ms = self.timing.fetch_timeout_ms // 2
        for voter_id in leadership.begin_calls.due(self._now_ms):
            if leadership.has_heard(voter_id, self._now_ms - interval_ms):
                leadership.begin_calls.again(voter_id, self._now_ms + interval_ms)
            else:
                voter = self.voters.by_id[voter_id]
                endpoints = self.voters.by_id[self.node_id].endpoints
                request = self._send(voter_id, begin_request(self._me, voter, self.epoch, endpoints))
                leadership.begin_calls.sent(request)

    def _commit(self) -> None:
        if self._leadership is not None and self._leadership.commit(self.voters):
            self._outbox.answers += self._leadership.committed()

    def _warn(self, kind: str, *about: object) -> None:
        """Log a warning once; at most ten of a kind, as other nodes can cause any number of different ones."""
        said, warning = self._warned[kind], kind % about
        if warning not in said and len(said) < _MOST_OF_A_KIND:
            said.add(warning)
            self._outbox.warnings.append(warning)
