"""Requests of other nodes: the response, and the change of role that follows.

    request           sender                  effect
    Vote              prospective, candidate  starts a later epoch; the vote or pre-vote is granted or refused
    BeginQuorumEpoch  new leader              this node follows it
    EndQuorumEpoch    resigned leader         the preferred successor becomes a candidate at once, the others later
    Fetch             followers               advances their positions; returns what comes next
    FetchSnapshot     followers               returns the next bytes

Requests of earlier epochs are fenced and those of another cluster refused. A candidate or leader that is no voter here
is refused too, unless the voters can change (kraft.version 1). A voter grants one vote an epoch, to a log at least as
up to date as its own.
"""

from __future__ import annotations

from controller.raft.leader import LeaderState
from controller.raft.local_replica import LocalReplica
from controller.raft.log import RaftEpochEnd, SnapshotId
from controller.raft.messages import NO_NODE, ElectionState, RaftRequest, RaftResponse, Response
from controller.raft.quorum_state import QuorumState
from controller.raft.voters import NO_DIRECTORY
from controller.raft.wire import (
    BeginPartition,
    VotePartition,
    begin_response,
    end_response,
    error_response,
    fetch_response,
    requested_partition,
    snapshot_response,
    vote_response,
)
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.fetch_snapshot import FetchSnapshotRequest
from protocol.messages.vote import VoteRequest


class RequestHandler:
    """Handles the requests of other nodes; each gets one response."""

    def __init__(self, replica: LocalReplica, quorum: QuorumState) -> None:
        self._replica = replica
        self._quorum = quorum

    def handle(self, token: object, request: RaftRequest) -> None:
        """Handle a request; its response may come later."""
        own_cluster_id = self._replica.key.cluster_id
        if request.cluster_id is not None and own_cluster_id is not None and request.cluster_id != own_cluster_id:
            self._replica.warn(
                "Refused a request for cluster %s: this node is in cluster %s", request.cluster_id, own_cluster_id
            )
            self._respond(token, error_response(request, ErrorCode.INCONSISTENT_CLUSTER_ID))
            return
        try:
            if isinstance(request, FetchRequest):
                self._handle_fetch_request(token, request)
            elif isinstance(request, FetchSnapshotRequest):
                self._handle_fetch_snapshot_request(token, request)
            elif isinstance(request, VoteRequest):
                self._respond(token, self._handle_vote_request(request))
            elif isinstance(request, BeginQuorumEpochRequest):
                self._respond(token, self._handle_begin_request(request))
            else:
                self._respond(token, self._handle_end_request(request))
        except KafkaError as error:
            self._respond(token, error_response(request, error.code))

    def _respond(self, token: object, response: RaftResponse) -> None:
        self._replica.pending.responses.append(Response(token, response))

    def _handle_vote_request(self, request: VoteRequest) -> RaftResponse:
        partition = requested_partition(request)
        replica, quorum = self._replica, self._quorum
        candidate_id, epoch = partition.replica_id, partition.replica_epoch
        error = (
            self._voter_key_error(request.voter_id, partition)
            or self._membership_error(candidate_id)
            or self._membership_error(replica.node_id)
        )
        if candidate_id == replica.node_id:
            replica.warn("Another node has this node's id %s", candidate_id)
            error = ErrorCode.INCONSISTENT_VOTER_SET
        if epoch < quorum.epoch:
            error = error or ErrorCode.FENCED_LEADER_EPOCH
        if error:
            return vote_response(quorum.leader_and_epoch, granted=False, error=error)
        if epoch > quorum.epoch:
            quorum.become_unattached(ElectionState(epoch), replica.election_timeout())
        end = RaftEpochEnd(partition.last_offset_epoch, partition.last_offset)
        granted = replica.is_voter and replica.log.may_be_led_by(end)
        if partition.pre_vote:
            granted = granted and quorum.state.grants_pre_vote(candidate_id)
        else:
            directory_id = partition.replica_directory_id
            granted = granted and quorum.election.may_vote_for(candidate_id, directory_id)
            if granted:
                vote = ElectionState(epoch, voted_id=candidate_id, voted_directory_id=directory_id)
                quorum.become_unattached(vote, replica.election_timeout())
        return vote_response(quorum.leader_and_epoch, granted=granted)

    def _handle_begin_request(self, request: BeginQuorumEpochRequest) -> RaftResponse:
        partition, quorum = requested_partition(request), self._quorum
        leader_id, epoch = partition.leader_id, partition.leader_epoch
        error = self._voter_key_error(request.voter_id, partition) or self._leader_error(leader_id, epoch)
        if not error:
            if quorum.leader_and_epoch != (leader_id, epoch):
                quorum.become_follower(epoch, leader_id)
            quorum.state.leader_contacted()
        return begin_response(quorum.leader_and_epoch, error or ErrorCode.NONE)

    def _handle_end_request(self, request: EndQuorumEpochRequest) -> RaftResponse:
        partition, replica, quorum = requested_partition(request), self._replica, self._quorum
        leader_id, epoch = partition.leader_id, partition.leader_epoch
        error = self._leader_error(leader_id, epoch)
        if not error:
            candidates = [candidate.candidate_id for candidate in partition.preferred_candidates]
            successors = candidates or partition.preferred_successors
            quorum.become_follower(epoch, leader_id)
            rank = successors.index(replica.node_id) if replica.node_id in successors else len(successors)
            if rank == 0 and replica.may_campaign:
                # The leader itself has resigned, so no pre-votes are needed.
                quorum.become_candidate()
            else:
                deadline_ms = replica.now_ms + rank * replica.timing.election_backoff_max_ms // 2
                quorum.perform(quorum.state.suspect_leader(deadline_ms))
        return end_response(quorum.leader_and_epoch, error or ErrorCode.NONE)

    def _handle_fetch_request(self, token: object, request: FetchRequest) -> None:
        partition, state = requested_partition(request), self._quorum.state
        error = self._epoch_error(partition.current_leader_epoch)
        if not error and min(partition.fetch_offset, partition.last_fetched_epoch) < 0:
            error = ErrorCode.INVALID_REQUEST
        if error or not isinstance(state, LeaderState):
            error = error or ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._respond(token, fetch_response(self._quorum.leader_and_epoch, error=error))
        else:
            state.handle_fetch_request(token, request, partition)

    def _handle_fetch_snapshot_request(self, token: object, request: FetchSnapshotRequest) -> None:
        partition, state = requested_partition(request), self._quorum.state
        error = self._epoch_error(partition.current_leader_epoch)
        if error or not isinstance(state, LeaderState):
            error = error or ErrorCode.NOT_LEADER_OR_FOLLOWER
            snapshot = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
            self._respond(token, snapshot_response(self._quorum.leader_and_epoch, snapshot, error=error))
        else:
            state.handle_fetch_snapshot_request(token, request, partition)

    def _epoch_error(self, leader_epoch: int) -> ErrorCode | None:
        """Return the error for a Fetch of another epoch, or for one to a node that does not lead; else None."""
        if leader_epoch == self._quorum.epoch:
            return None if isinstance(self._quorum.state, LeaderState) else ErrorCode.NOT_LEADER_OR_FOLLOWER
        fenced = leader_epoch < self._quorum.epoch
        return ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH

    def _voter_key_error(self, voter_id: int, partition: VotePartition | BeginPartition) -> ErrorCode | None:
        """Return INVALID_VOTER_KEY for a request to another voter, or to another directory of this one; else None."""
        own, directory_id = self._replica.key.directory_id, partition.voter_directory_id
        another_directory = NO_DIRECTORY not in (own, directory_id) and directory_id != own
        another = voter_id not in (NO_NODE, self._replica.node_id) or another_directory
        return ErrorCode.INVALID_VOTER_KEY if another else None

    def _membership_error(self, node_id: int) -> ErrorCode | None:
        """Return INCONSISTENT_VOTER_SET for a node that is no voter; None if voters can change: it may be a new one."""
        voters = self._replica.voters
        if node_id in voters or self._replica.voter_history.kraft_version > 0:
            return None
        self._replica.warn("Nodes have different voters: %s is not among this node's %s", node_id, sorted(voters.by_id))
        return ErrorCode.INCONSISTENT_VOTER_SET

    def _leader_error(self, leader_id: int, epoch: int) -> ErrorCode | None:
        """Return the error for a leader that this node cannot follow in that epoch; None if it can."""
        if epoch < self._quorum.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        election = self._quorum.election
        another_leads = epoch == election.epoch and election.leader_id not in (NO_NODE, leader_id)
        if leader_id == self._replica.node_id or another_leads:
            self._replica.warn(
                "Node %s claims to be the leader of epoch %s, which contradicts %s", leader_id, epoch, election
            )
            return ErrorCode.INVALID_REQUEST
        return self._membership_error(leader_id)
