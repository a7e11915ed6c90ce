"""Conversion between Raft's values and Kafka's requests and responses, each about the metadata log's one partition.

Every response carries the leader and the epoch that its sender knows; `told_by` reads them from any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from controller.raft.log import SnapshotId
from controller.raft.messages import NO_NODE
from controller.topic_names import CLUSTER_METADATA, METADATA_TOPIC_ID
from protocol.errors import ErrorCode, InvariantError
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from protocol.messages.vote import VoteRequest, VoteResponse
from protocol.schema import Message

if TYPE_CHECKING:
    from controller.raft.log import RaftEpochEnd
    from controller.raft.messages import RaftRequest, Timing
    from controller.raft.voters import Voter

NO_EPOCH = -1

_RAFT_RESPONSES = (VoteResponse, BeginQuorumEpochResponse, EndQuorumEpochResponse, FetchResponse, FetchSnapshotResponse)


class ReplicaKey(NamedTuple):
    """The sending node: its id, its log directory, and its cluster id, None if unknown."""

    node_id: int
    directory_id: bytes
    cluster_id: str | None


class LeaderAndEpoch(NamedTuple):
    """The leader, or NOBODY, and the epoch that a node knows (Kafka: `LeaderAndEpoch`)."""

    leader_id: int
    epoch: int


class ResponseHeader(NamedTuple):
    """Error, leader and epoch of a response."""

    error: int
    leader_id: int
    epoch: int
    partition: Any
    """The rest of the response; None if the error is that of the whole request."""


def vote_request(me: ReplicaKey, to: Voter, epoch: int, end: RaftEpochEnd, *, pre_vote: bool) -> VoteRequest:
    """Return the Vote request for `epoch`, or for a pre-vote in the current epoch."""
    partition = VoteRequest.Topic.Partition(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=me.node_id,
        replica_directory_id=me.directory_id,
        voter_directory_id=to.directory_id,
        last_offset_epoch=end.epoch,
        last_offset=end.end_offset,
        pre_vote=pre_vote,
    )
    topic = VoteRequest.Topic(topic_name=CLUSTER_METADATA, partitions=[partition])
    return VoteRequest(cluster_id=me.cluster_id, voter_id=to.voter_id, topics=[topic])


def begin_request(
    me: ReplicaKey, to: Voter, epoch: int, endpoints: Sequence[tuple[str, str, int]]
) -> BeginQuorumEpochRequest:
    """Return the BeginQuorumEpoch request that announces this node as the leader."""
    partition = BeginQuorumEpochRequest.Topic.Partition(
        partition_index=0, voter_directory_id=to.directory_id, leader_id=me.node_id, leader_epoch=epoch
    )
    return BeginQuorumEpochRequest(
        cluster_id=me.cluster_id,
        voter_id=to.voter_id,
        topics=[BeginQuorumEpochRequest.Topic(topic_name=CLUSTER_METADATA, partitions=[partition])],
        leader_endpoints=[
            BeginQuorumEpochRequest.LeaderEndpoint(name=name, host=host, port=port) for name, host, port in endpoints
        ],
    )


def end_request(me: ReplicaKey, epoch: int, successors: Sequence[Voter]) -> EndQuorumEpochRequest:
    """Return the EndQuorumEpoch request of a leader that resigns, with the preferred successors, best first."""
    asked = EndQuorumEpochRequest.Topic.Partition
    partition = asked(
        partition_index=0,
        leader_id=me.node_id,
        leader_epoch=epoch,
        preferred_successors=[voter.voter_id for voter in successors],
        preferred_candidates=[
            asked.Candidate(candidate_id=voter.voter_id, candidate_directory_id=voter.directory_id)
            for voter in successors
        ],
    )
    topic = EndQuorumEpochRequest.Topic(topic_name=CLUSTER_METADATA, partitions=[partition])
    return EndQuorumEpochRequest(cluster_id=me.cluster_id, topics=[topic])


def fetch_request(me: ReplicaKey, epoch: int, end: RaftEpochEnd, high_watermark: int, timing: Timing) -> FetchRequest:
    """Return the Fetch request for what follows the end of this node's log."""
    partition = FetchRequest.Topic.Partition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=end.end_offset,
        last_fetched_epoch=end.epoch,
        partition_max_bytes=timing.fetch_max_bytes,
        replica_directory_id=me.directory_id,
        high_watermark=high_watermark,
    )
    return FetchRequest(
        cluster_id=me.cluster_id,
        replica_state=FetchRequest.ReplicaState(replica_id=me.node_id),
        max_wait_ms=timing.fetch_max_wait_ms,
        min_bytes=0,
        max_bytes=timing.fetch_max_bytes,
        topics=[
            FetchRequest.Topic(topic=CLUSTER_METADATA, topic_id=METADATA_TOPIC_ID, partitions=[partition]),
        ],
    )


def snapshot_request(
    me: ReplicaKey, epoch: int, snapshot: SnapshotId, position: int, timing: Timing
) -> FetchSnapshotRequest:
    """Return the FetchSnapshot request for the bytes from `position` on."""
    asked = FetchSnapshotRequest.Topic.Partition
    partition = asked(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=asked.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        position=position,
        replica_directory_id=me.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=me.cluster_id,
        replica_id=me.node_id,
        max_bytes=timing.fetch_snapshot_max_bytes,
        topics=[FetchSnapshotRequest.Topic(name=CLUSTER_METADATA, partitions=[partition])],
    )


def asked_partition(request: RaftRequest) -> Any:
    """Return the request's partition of the metadata log; None if the request is not about that partition alone."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic: Any = request.topics[0]
    partition: Any = topic.partitions[0]
    if isinstance(request, FetchRequest):
        about = topic.topic == CLUSTER_METADATA or topic.topic_id == METADATA_TOPIC_ID
        return partition if about and partition.partition == 0 else None
    if isinstance(request, FetchSnapshotRequest):
        return partition if topic.name == CLUSTER_METADATA and partition.partition == 0 else None
    return partition if topic.topic_name == CLUSTER_METADATA and partition.partition_index == 0 else None


def refusal(request: RaftRequest, error: ErrorCode) -> Message:
    """Return the response with an error for the whole request."""
    if isinstance(request, FetchRequest):
        return FetchResponse(error_code=error, responses=[])
    if isinstance(request, FetchSnapshotRequest):
        return FetchSnapshotResponse(error_code=error, topics=[])
    if isinstance(request, VoteRequest):
        return VoteResponse(error_code=error, topics=[])
    if isinstance(request, BeginQuorumEpochRequest):
        return BeginQuorumEpochResponse(error_code=error, topics=[])
    return EndQuorumEpochResponse(error_code=error, topics=[])


def error_response(request: RaftRequest, error: ErrorCode, known: LeaderAndEpoch) -> Message:
    """Return the response with an error of the partition; NONE for a successful BeginQuorumEpoch or EndQuorumEpoch."""
    if isinstance(request, FetchRequest):
        return fetch_response(known, error=error)
    if isinstance(request, FetchSnapshotRequest):
        asked = asked_partition(request).snapshot_id
        return snapshot_response(known, SnapshotId(asked.end_offset, asked.epoch), error=error)
    if isinstance(request, VoteRequest):
        return vote_response(known, granted=False, error=error)
    response: Any = BeginQuorumEpochResponse if isinstance(request, BeginQuorumEpochRequest) else EndQuorumEpochResponse
    partition = response.Topic.Partition(
        partition_index=0, error_code=error, leader_id=known.leader_id, leader_epoch=known.epoch
    )
    told: Message = response(topics=[response.Topic(topic_name=CLUSTER_METADATA, partitions=[partition])])
    return told


def vote_response(known: LeaderAndEpoch, *, granted: bool, error: ErrorCode = ErrorCode.NONE) -> VoteResponse:
    """Return the response to a Vote."""
    partition = VoteResponse.Topic.Partition(
        partition_index=0,
        error_code=error,
        leader_id=known.leader_id,
        leader_epoch=known.epoch,
        vote_granted=granted,
    )
    return VoteResponse(topics=[VoteResponse.Topic(topic_name=CLUSTER_METADATA, partitions=[partition])])


def fetch_response(
    known: LeaderAndEpoch,
    *,
    error: ErrorCode = ErrorCode.NONE,
    high_watermark: int = -1,
    log_start_offset: int = -1,
    instead: RaftEpochEnd | SnapshotId | None = None,
) -> FetchResponse:
    """Return the response to a Fetch, still without records; `instead` is the diverging epoch or the snapshot."""
    answered = FetchResponse.Topic.Partition
    partition = answered(
        partition_index=0,
        error_code=error,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=log_start_offset,
        current_leader=answered.CurrentLeader(leader_id=known.leader_id, leader_epoch=known.epoch),
        aborted_transactions=None,
        records=b"",
    )
    if isinstance(instead, SnapshotId):
        partition.snapshot_id = answered.SnapshotId(end_offset=instead.end_offset, epoch=instead.epoch)
    elif instead is not None:
        partition.diverging_epoch = answered.DivergingEpoch(epoch=instead.epoch, end_offset=instead.end_offset)
    topic = FetchResponse.Topic(topic=CLUSTER_METADATA, topic_id=METADATA_TOPIC_ID, partitions=[partition])
    return FetchResponse(responses=[topic])


def snapshot_response(
    known: LeaderAndEpoch, snapshot: SnapshotId, *, position: int = 0, error: ErrorCode = ErrorCode.NONE
) -> FetchSnapshotResponse:
    """Return the response to a FetchSnapshot, still without bytes and size."""
    answered = FetchSnapshotResponse.Topic.Partition
    partition = answered(
        index=0,
        error_code=error,
        snapshot_id=answered.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        current_leader=answered.CurrentLeader(leader_id=known.leader_id, leader_epoch=known.epoch),
        size=0,
        position=position,
        unaligned_records=b"",
    )
    return FetchSnapshotResponse(topics=[FetchSnapshotResponse.Topic(name=CLUSTER_METADATA, partitions=[partition])])


def told_by(response: Message) -> ResponseHeader:
    """Return error, leader and epoch of a response; InvariantError if it is no response of Raft."""
    if not isinstance(response, _RAFT_RESPONSES):
        raise InvariantError(f"{type(response).__name__} is not a Raft response")
    topics: Any = response.responses if isinstance(response, FetchResponse) else response.topics
    if response.error_code or len(topics) != 1 or len(topics[0].partitions) != 1:
        return ResponseHeader(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR, NO_NODE, NO_EPOCH, None)
    partition = topics[0].partitions[0]
    if isinstance(response, FetchResponse | FetchSnapshotResponse):
        leader = partition.current_leader
        return ResponseHeader(partition.error_code, leader.leader_id, leader.leader_epoch, partition)
    return ResponseHeader(partition.error_code, partition.leader_id, partition.leader_epoch, partition)
