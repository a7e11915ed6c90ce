"""DescribeQuorum: the leader of the metadata log, and the log end offset of each replica (KIP-595).

Behaviour
- UNKNOWN_TOPIC_OR_PARTITION for each requested partition, unless partition 0 of `__cluster_metadata` is the only one.
- Only the Raft leader responds with the state; it is always caught up with itself. Observers are nodes without a vote.

Version notes
- 1 and later have the times of each replica's last fetch and of when it was last caught up (KIP-836).
- 2 and later have the voters' directory ids, zeros at kraft.version 0, and the endpoints of the controllers (KIP-853).
"""

from broker.controller_server import ControllerServer
from broker.network.connection import RequestContext
from controller.image import Endpoint
from controller.raft.messages import ReplicaProgress
from controller.topic_names import CLUSTER_METADATA
from protocol.errors import ErrorCode
from protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse, ReplicaState
from protocol.primitives import ZERO_UUID

_Topic = DescribeQuorumResponse.Topic
_NODES_FROM_VERSION = 2
_NEVER = -1
_ANY_NAME = "CONTROLLER"

_Node = DescribeQuorumResponse.Node


def handle(
    controller: ControllerServer, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """Return the state of the quorum."""
    wanted = [
        (topic.topic_name, [partition.partition_index for partition in topic.partitions]) for topic in request.topics
    ]
    if wanted != [(CLUSTER_METADATA, [0])]:
        return DescribeQuorumResponse(
            topics=[
                _Topic(topic_name=name, partitions=[_unknown(index) for index in indexes]) for name, indexes in wanted
            ]
        )
    with_nodes = context.api_version >= _NODES_FROM_VERSION
    return DescribeQuorumResponse(
        topics=[
            _Topic(
                topic_name=CLUSTER_METADATA,
                partitions=[_describe(controller, with_directories=with_nodes and controller.raft.kraft_version > 0)],
            )
        ],
        nodes=_nodes(controller) if with_nodes else [],
    )


def _describe(controller: ControllerServer, *, with_directories: bool) -> _Topic.Partition:
    now_ms = controller.now_ms()
    quorum = controller.raft.quorum()
    return _Topic.Partition(
        partition_index=0,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[_state(replica, now_ms, with_directories=with_directories) for replica in quorum.voters],
        observers=[_state(replica, now_ms, with_directories=with_directories) for replica in quorum.observers],
    )


def _state(replica: ReplicaProgress, now_ms: int, *, with_directories: bool) -> ReplicaState:
    fetched, caught_up = replica.last_fetch_age_ms, replica.caught_up_age_ms
    return ReplicaState(
        replica_id=replica.node_id,
        replica_directory_id=replica.directory_id if with_directories else ZERO_UUID,
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=_NEVER if fetched is None else now_ms - fetched,
        last_caught_up_timestamp=_NEVER if caught_up is None else now_ms - caught_up,
    )


def _unknown(index: int) -> _Topic.Partition:
    return _Topic.Partition(
        partition_index=index,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message="There is no such partition of the metadata log.",
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )


def _nodes(controller: ControllerServer) -> list[_Node]:
    """Return the voters' endpoints: those registered, else those of the settings."""
    registered = controller.image.controllers
    own = {
        name: point for name, point in controller.endpoints.items() if name in controller.settings.controller_listeners
    }
    found = {voter.node_id: {_ANY_NAME: Endpoint(voter.host, voter.port)} for voter in controller.settings.voters}
    found |= {node_id: dict(registered[node_id].endpoints) for node_id in found if node_id in registered}
    found[controller.node_id] = own
    return [
        _Node(
            node_id=node_id,
            listeners=[
                _Node.Listener(name=name, host=point.host, port=point.port) for name, point in endpoints.items()
            ],
        )
        for node_id, endpoints in sorted(found.items())
    ]
