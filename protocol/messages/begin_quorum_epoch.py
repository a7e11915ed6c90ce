"""BeginQuorumEpoch: the new leader of the metadata log announces itself to the voters (KIP-595).

Version notes: 1 has directory ids and endpoints (KIP-853), and is the first flexible one.
"""

from __future__ import annotations

from protocol.schema import ZERO_UUID, Int16, Int32, Message, String, UInt16, Uuid, message, struct, wire


@struct
class NodeEndpoint:
    """A listener of a node that the response names."""

    node_id: Int32
    host: String
    port: UInt16


@message(key=53, versions=(0, 1), flexible=1)
class BeginQuorumEpochRequest(Message):
    """The leader and its epoch; `voter` is the receiver."""

    cluster_id: String | None = wire(default=None)
    voter_id: Int32 = wire("1+", default=-1, ignorable=True)
    topics: list[Topic]
    leader_endpoints: list[LeaderEndpoint] = wire("1+", default=[], ignorable=True)

    @struct
    class Topic:
        topic_name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            voter_directory_id: Uuid = wire("1+", default=ZERO_UUID, ignorable=True)
            leader_id: Int32
            leader_epoch: Int32

    @struct
    class LeaderEndpoint:
        name: String
        host: String
        port: UInt16


@message(key=53, versions=(0, 1), flexible=1)
class BeginQuorumEpochResponse(Message):
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
