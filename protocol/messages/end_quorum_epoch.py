"""EndQuorumEpoch: the leader of the metadata log resigns, and lists its preferred successors (KIP-595).

Version notes: 1 has directory ids and endpoints (KIP-853), and is the first flexible one.
"""

from __future__ import annotations

from protocol.messages.begin_quorum_epoch import NodeEndpoint
from protocol.schema import Int16, Int32, Message, String, UInt16, Uuid, message, struct, wire


@message(key=54, versions=(0, 1), flexible=1)
class EndQuorumEpochRequest(Message):
    """The leader, its epoch, and the voters by descending log end offset."""

    cluster_id: String | None = wire(default=None)
    topics: list[Topic]
    leader_endpoints: list[LeaderEndpoint] = wire("1+", default=[], ignorable=True)

    @struct
    class Topic:
        topic_name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            leader_id: Int32
            leader_epoch: Int32
            preferred_successors: list[Int32] = wire("0", default=[], ignorable=True)
            preferred_candidates: list[Candidate] = wire("1+", default=[], ignorable=True)

            @struct
            class Candidate:
                candidate_id: Int32
                candidate_directory_id: Uuid

    @struct
    class LeaderEndpoint:
        name: String
        host: String
        port: UInt16


@message(key=54, versions=(0, 1), flexible=1)
class EndQuorumEpochResponse(Message):
    """The leader and the epoch that the voter knows (id -1: no leader)."""

    error_code: Int16 = wire(default=0)
    topics: list[Topic]
    node_endpoints: list[NodeEndpoint] = wire("1+", default=[], tag=0)

    @struct
    class Topic:
        topic_name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16 = wire(default=0)
            leader_id: Int32
            leader_epoch: Int32
