"""Conversion between Raft's values and Kafka's requests and responses, each about the metadata log's one partition.

Every response has the leader and the epoch that its sender knows; `response_header` reads them from any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, overload

from controller.raft.log import SnapshotId
from controller.raft.messages import NO_NODE
from controller.topic_names import CLUSTER_METADATA, METADATA_TOPIC_ID
from protocol.errors import ErrorCode, InvariantError, KafkaError
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from protocol.messages.vote import VoteRequest, VoteResponse
from protocol.schema import Message

if TYPE_CHECKING:
    from controller.raft.log import RaftEpochEnd
    from controller.raft.messages import RaftRequest, RaftResponse, Timing
    from controller.raft.voters import Voter

NO_EPOCH = -1

BeginPartition: TypeAlias = BeginQuorumEpochRequest.Topic.Partition
EndPartition: TypeAlias = EndQuorumEpochRequest.Topic.Partition
FetchPartition: TypeAlias = FetchRequest.Topic.Partition
FetchSnapshotPartition: TypeAlias = FetchSnapshotRequest.Topic.Partition
VotePartition: TypeAlias = VoteRequest.Topic.Partition
BeginResult: TypeAlias = BeginQuorumEpochResponse.Topic.Partition
EndResult: TypeAlias = EndQuorumEpochResponse.Topic.Partition
FetchResult: TypeAlias = FetchResponse.Topic.Partition
FetchSnapshotResult: TypeAlias = FetchSnapshotResponse.Topic.Partition
VoteResult: TypeAlias = VoteResponse.Topic.Partition


class ReplicaKey(NamedTuple):
    """The sending node: its id, its log directory, and its cluster id, None if unknown."""

    node_id: int
    directory_id: bytes
    cluster_id: str | None


class LeaderAndEpoch(NamedTuple):
    """The leader, or NO_NODE, and the epoch that a node knows (Kafka: `LeaderAndEpoch`)."""

    leader_id: int
    epoch: int


class ResponseHeader(NamedTuple):
    """Error, leader and epoch of a response."""

    error: int
    leader_id: int
    epoch: int
    partition: VoteResult | BeginResult | EndResult | FetchResult | FetchSnapshotResult | None
    """None if the error is that of the whole response."""


def vote_request(sender: ReplicaKey, to: Voter, epoch: int, end: RaftEpochEnd, *, pre_vote: bool) -> VoteRequest:
    """Return the Vote request for `epoch`, or for a pre-vote in the current epoch."""
    partition = VotePartition(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=sender.node_id,
        replica_directory_id=sender.directory_id,
        voter_directory_id=to.directory_id,
        last_offset_epoch=end.epoch,
        last_offset=end.end_offset,
        pre_vote=pre_vote,
    )
    topic = VoteRequest.Topic(topic_name=CLUSTER_METADATA, partitions=[partition])
    return VoteRequest(cluster_id=sender.cluster_id, voter_id=to.voter_id, topics=[topic])


def begin_request(sender: ReplicaKey, to: Voter, epoch: int, leader: Voter) -> BeginQuorumEpochRequest:
    """Return the BeginQuorumEpoch request that announces this node, the voter `leader`, as the leader."""
    partition = BeginPartition(
        partition_index=0, voter_directory_id=to.directory_id, leader_id=sender.node_id, leader_epoch=epoch
    )
    return BeginQuorumEpochRequest(
        cluster_id=sender.cluster_id,
        voter_id=to.voter_id,
        topics=[BeginQuorumEpochRequest.Topic(topic_name=CLUSTER_METADATA, partitions=[partition])],
        leader_endpoints=[
            BeginQuorumEpochRequest.LeaderEndpoint(name=endpoint.name, host=endpoint.host, port=endpoint.port)
            for endpoint in leader.endpoints
        ],
    )


def end_request(sender: ReplicaKey, epoch: int, successors: Sequence[Voter]) -> EndQuorumEpochRequest:
    """Return the EndQuorumEpoch request of a leader that resigns, with the preferred successors, best first."""
    partition = EndPartition(
        partition_index=0,
        leader_id=sender.node_id,
        leader_epoch=epoch,
        preferred_successors=[voter.voter_id for voter in successors],
        preferred_candidates=[
            EndPartition.Candidate(candidate_id=voter.voter_id, candidate_directory_id=voter.directory_id)
            for voter in successors
        ],
    )
    topic = EndQuorumEpochRequest.Topic(topic_name=CLUSTER_METADATA, partitions=[partition])
    return EndQuorumEpochRequest(cluster_id=sender.cluster_id, topics=[topic])


def fetch_request(
    sender: ReplicaKey, epoch: int, end: RaftEpochEnd, high_watermark: int, timing: Timing
) -> FetchRequest:
    """Return the Fetch request for what follows the end of this node's log."""
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=end.end_offset,
        last_fetched_epoch=end.epoch,
        partition_max_bytes=timing.fetch_max_bytes,
        replica_directory_id=sender.directory_id,
        high_watermark=high_watermark,
    )
    return FetchRequest(
        cluster_id=sender.cluster_id,
        replica_state=FetchRequest.ReplicaState(replica_id=sender.node_id),
        max_wait_ms=timing.fetch_max_wait_ms,
        min_bytes=0,
        max_bytes=timing.fetch_max_bytes,
        topics=[
            FetchRequest.Topic(topic=CLUSTER_METADATA, topic_id=METADATA_TOPIC_ID, partitions=[partition]),
        ],
    )


def snapshot_request(
    sender: ReplicaKey, epoch: int, snapshot: SnapshotId, position: int, timing: Timing
) -> FetchSnapshotRequest:
    """Return the FetchSnapshot request for the bytes from `position` on."""
    partition = FetchSnapshotPartition(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=FetchSnapshotPartition.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        position=position,
        replica_directory_id=sender.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=sender.cluster_id,
        replica_id=sender.node_id,
        max_bytes=timing.fetch_snapshot_max_bytes,
        topics=[FetchSnapshotRequest.Topic(name=CLUSTER_METADATA, partitions=[partition])],
    )


@overload
def requested_partition(request: VoteRequest) -> VotePartition: ...
@overload
def requested_partition(request: BeginQuorumEpochRequest) -> BeginPartition: ...
@overload
def requested_partition(request: EndQuorumEpochRequest) -> EndPartition: ...
@overload
def requested_partition(request: FetchRequest) -> FetchPartition: ...
@overload
def requested_partition(request: FetchSnapshotRequest) -> FetchSnapshotPartition: ...
def requested_partition(
    request: RaftRequest,
) -> VotePartition | BeginPartition | EndPartition | FetchPartition | FetchSnapshotPartition:
    """Return the request's partition; KafkaError INVALID_REQUEST unless it is about the metadata log's alone."""
    if len(request.topics) == 1 and len(request.topics[0].partitions) == 1:
        if isinstance(request, FetchRequest):
            fetch = request.topics[0]
            # Versions below 13, which have only the name, cannot carry the leader and the snapshot of a response.
            if fetch.topic_id == METADATA_TOPIC_ID and fetch.partitions[0].partition == 0:
                return fetch.partitions[0]
        elif isinstance(request, FetchSnapshotRequest):
            fetch_snapshot = request.topics[0]
            if fetch_snapshot.name == CLUSTER_METADATA and fetch_snapshot.partitions[0].partition == 0:
                return fetch_snapshot.partitions[0]
        else:
            topic = request.topics[0]
            if topic.topic_name == CLUSTER_METADATA and topic.partitions[0].partition_index == 0:
                return topic.partitions[0]
    raise KafkaError(ErrorCode.INVALID_REQUEST, "the request is not about the metadata log alone")


def error_response(request: RaftRequest, error: ErrorCode) -> RaftResponse:
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


def vote_response(known: LeaderAndEpoch, *, granted: bool, error: ErrorCode = ErrorCode.NONE) -> VoteResponse:
    """Return the response to a Vote."""
    partition = VoteResult(
        partition_index=0,
        error_code=error,
        leader_id=known.leader_id,
        leader_epoch=known.epoch,
        vote_granted=granted,
    )
    return VoteResponse(topics=[VoteResponse.Topic(topic_name=CLUSTER_METADATA, partitions=[partition])])


def begin_response(known: LeaderAndEpoch, error: ErrorCode) -> BeginQuorumEpochResponse:
    """Return the response to a BeginQuorumEpoch."""
    partition = BeginResult(partition_index=0, error_code=error, leader_id=known.leader_id, leader_epoch=known.epoch)
    topic = BeginQuorumEpochResponse.Topic(topic_name=CLUSTER_METADATA, partitions=[partition])
    return BeginQuorumEpochResponse(topics=[topic])


def end_response(known: LeaderAndEpoch, error: ErrorCode) -> EndQuorumEpochResponse:
    """Return the response to an EndQuorumEpoch."""
    partition = EndResult(partition_index=0, error_code=error, leader_id=known.leader_id, leader_epoch=known.epoch)
    topic = EndQuorumEpochResponse.Topic(topic_name=CLUSTER_METADATA, partitions=[partition])
    return EndQuorumEpochResponse(topics=[topic])


def fetch_response(
    known: LeaderAndEpoch,
    *,
    error: ErrorCode = ErrorCode.NONE,
    high_watermark: int = -1,
    log_start_offset: int = -1,
    divergence: RaftEpochEnd | SnapshotId | None = None,
) -> FetchResponse:
    """Return the response to a Fetch, still without records; `divergence` is the diverging epoch or the snapshot."""
    partition = FetchResult(
        partition_index=0,
        error_code=error,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=log_start_offset,
        current_leader=FetchResult.CurrentLeader(leader_id=known.leader_id, leader_epoch=known.epoch),
        aborted_transactions=None,
        records=b"",
    )
    if isinstance(divergence, SnapshotId):
        partition.snapshot_id = FetchResult.SnapshotId(end_offset=divergence.end_offset, epoch=divergence.epoch)
    elif divergence is not None:
        partition.diverging_epoch = FetchResult.DivergingEpoch(epoch=divergence.epoch, end_offset=divergence.end_offset)
    topic = FetchResponse.Topic(topic=CLUSTER_METADATA, topic_id=METADATA_TOPIC_ID, partitions=[partition])
    return FetchResponse(responses=[topic])


def snapshot_response(
    known: LeaderAndEpoch, snapshot: SnapshotId, *, position: int = 0, error: ErrorCode = ErrorCode.NONE
) -> FetchSnapshotResponse:
    """Return the response to a FetchSnapshot, still without bytes and size."""
    partition = FetchSnapshotResult(
        index=0,
        error_code=error,
        snapshot_id=FetchSnapshotResult.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        current_leader=FetchSnapshotResult.CurrentLeader(leader_id=known.leader_id, leader_epoch=known.epoch),
        size=0,
        position=position,
        unaligned_records=b"",
    )
    return FetchSnapshotResponse(topics=[FetchSnapshotResponse.Topic(name=CLUSTER_METADATA, partitions=[partition])])


def response_header(response: Message) -> ResponseHeader:
    """Return error, leader and epoch of a response; InvariantError if it is no response of Raft."""
    if isinstance(response, FetchResponse | FetchSnapshotResponse):
        fetched: list[FetchResponse.Topic] | list[FetchSnapshotResponse.Topic]
        fetched = response.responses if isinstance(response, FetchResponse) else response.topics
        if not response.error_code and len(fetched) == 1 and len(fetched[0].partitions) == 1:
            partition = fetched[0].partitions[0]
            leader = partition.current_leader
            return ResponseHeader(partition.error_code, leader.leader_id, leader.leader_epoch, partition)
    elif isinstance(response, VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse):
        topics = response.topics
        if not response.error_code and len(topics) == 1 and len(topics[0].partitions) == 1:
            result = topics[0].partitions[0]
            return ResponseHeader(result.error_code, result.leader_id, result.leader_epoch, result)
    else:
        raise InvariantError(f"{type(response).__name__} is not a Raft response")
    return ResponseHeader(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR, NO_NODE, NO_EPOCH, None)
