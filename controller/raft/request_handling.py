"""Requests of other nodes: the response, and the change of role that follows.

    request           sender                  effect
    Vote              prospective, candidate  starts a later epoch; the vote or pre-vote is granted or refused
    BeginQuorumEpoch  new leader              this node follows it
    EndQuorumEpoch    resigned leader         the preferred successor becomes a candidate at once, the others later
    Fetch             followers               advances their positions; returns what comes next
    FetchSnapshot     followers               returns the next bytes

Requests of earlier epochs are fenced and those of another cluster refused. A candidate or leader that is no voter here
is refused too, unless the voters can change (kraft.version 1).
"""

from __future__ import annotations

from typing import Any

from controller.raft.election import may_vote, would_vote
from controller.raft.log import RaftEpochEnd
from controller.raft.messages import NO_NODE, QuorumState, RaftRequest, Response
from controller.raft.roles import Member
from controller.raft.voters import NO_DIRECTORY
from controller.raft.wire import asked_partition, error_response, refusal, vote_response
from protocol.errors import ErrorCode
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.fetch_snapshot import FetchSnapshotRequest
from protocol.messages.vote import VoteRequest
from protocol.schema import Message


class RequestHandling(Member):
    """A node that answers the others' requests."""

    def _asked(self, token: object, request: RaftRequest) -> None:
        asked = asked_partition(request)
        ours = self._me.cluster_id
        if request.cluster_id is not None and ours is not None and request.cluster_id != ours:
            self._warn("Refused a request for cluster %s: this node is in cluster %s", request.cluster_id, ours)
            response = refusal(request, ErrorCode.INCONSISTENT_CLUSTER_ID)
        elif asked is None:
            response = refusal(request, ErrorCode.INVALID_REQUEST)
        elif isinstance(request, FetchRequest | FetchSnapshotRequest):
            self._asked_to_read(token, request, asked)
            return
        elif isinstance(request, VoteRequest):
            response = self._asked_to_vote(request, asked)
        elif isinstance(request, BeginQuorumEpochRequest):
            response = self._told_of_leader(request, asked)
        else:
            response = self._told_of_end(request, asked)
        self._outbox.answers.append(Response(token, response))

    def _asked_to_vote(self, request: VoteRequest, asked: Any) -> Message:
        candidate_id, epoch = asked.replica_id, asked.replica_epoch
        error = self._not_for_us(request, asked) or self._no_voter(candidate_id) or self._no_voter(self.node_id)
        if candidate_id == self.node_id:
            self._warn("Another node has this node's id %s", candidate_id)
            error = ErrorCode.INCONSISTENT_VOTER_SET
        if epoch < self.epoch:
            error = error or ErrorCode.FENCED_LEADER_EPOCH
        if error:
            return error_response(request, error, self._known())
        if epoch > self.epoch:
            self._unattach(QuorumState(epoch), self._election_ms())
        may = self.is_voter and self._log.may_be_led_by(RaftEpochEnd(asked.last_offset_epoch, asked.last_offset))
        if asked.pre_vote:
            heard = self._fetching is not None and self._fetching.heard
            granted = may and would_vote(self.role, self.quorum_state, candidate_id, leader_heard=heard)
        else:
            granted = may and may_vote(self.quorum_state, candidate_id, asked.replica_directory_id)
            if granted:
                vote = QuorumState(epoch, voted_id=candidate_id, voted_directory_id=asked.replica_directory_id)
                self._unattach(vote, self._election_ms())
        return vote_response(self._known(), granted=granted)

    def _told_of_leader(self, request: BeginQuorumEpochRequest, asked: Any) -> Message:
        leader_id, epoch = asked.leader_id, asked.leader_epoch
        error = self._not_for_us(request, asked) or self._no_leader(leader_id, epoch)
        if not error:
            if (self.leader_id, self.epoch) != (leader_id, epoch):
                self._follow(epoch, leader_id)
            self._heard_of_leader()
        return error_response(request, error or ErrorCode.NONE, self._known())

    def _told_of_end(self, request: EndQuorumEpochRequest, asked: Any) -> Message:
        leader_id, epoch = asked.leader_id, asked.leader_epoch
        error = self._no_leader(leader_id, epoch)
        if not error:
            candidates = [candidate.candidate_id for candidate in asked.preferred_candidates]
            successors = candidates or asked.preferred_successors
            self._follow(epoch, leader_id)
            place = successors.index(self.node_id) if self.node_id in successors else len(successors)
            if place == 0 and self.is_voter and not self._stopping:
                # The leader itself has resigned, so no pre-votes are needed.
                self._stand()
            else:
                self._suspect(self._now_ms + place * self.timing.election_backoff_max_ms // 2)
        return error_response(request, error or ErrorCode.NONE, self._known())

    def _asked_to_read(self, token: object, request: FetchRequest | FetchSnapshotRequest, asked: Any) -> None:
        error: ErrorCode | None = None
        if asked.current_leader_epoch < self.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif asked.current_leader_epoch > self.epoch:
            error = ErrorCode.UNKNOWN_LEADER_EPOCH
        elif self._leadership is None:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif isinstance(request, FetchRequest) and min(asked.fetch_offset, asked.last_fetched_epoch) < 0:
            error = ErrorCode.INVALID_REQUEST
        if error or self._leadership is None:
            error = error or ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._outbox.answers.append(Response(token, error_response(request, error, self._known())))
        elif isinstance(request, FetchRequest):
            self._outbox.answers += self._leadership.fetch(token, request, asked, self.voters, self._now_ms)
            self._commit()
        else:
            answer = self._leadership.fetch_snapshot(token, request, asked, self.voters, self._now_ms)
            self._outbox.answers.append(answer)

    def _not_for_us(self, request: VoteRequest | BeginQuorumEpochRequest, asked: Any) -> ErrorCode | None:
        own = self._me.directory_id
        another_directory = NO_DIRECTORY not in (own, asked.voter_directory_id) and asked.voter_directory_id != own
        if request.voter_id not in (NO_NODE, self.node_id) or another_directory:
            return ErrorCode.INVALID_VOTER_KEY
        return None

    def _no_voter(self, node_id: int) -> ErrorCode | None:
        """Return INCONSISTENT_VOTER_SET for a node that is no voter; None if voters can change: it may be a new one."""
        if node_id in self.voters or self._kraft_version > 0:
            return None
        self._warn("Nodes have different voters: %s is not among this node's %s", node_id, sorted(self.voters.by_id))
        return ErrorCode.INCONSISTENT_VOTER_SET

    def _no_leader(self, leader_id: int, epoch: int) -> ErrorCode | None:
        """Return the error for a leader that this node cannot follow in that epoch; None if it can."""
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if leader_id == self.node_id or (
            epoch == self.epoch and self.quorum_state.leader_id not in (NO_NODE, leader_id)
        ):
            known = self.quorum_state
            self._warn("Node %s claims to be the leader of epoch %s, which contradicts %s", leader_id, epoch, known)
            return ErrorCode.INVALID_REQUEST
        return self._no_voter(leader_id)
