"""DescribeQuorum: describe the leader, voters and observers of the metadata log, with their log end offsets (KIP-595).

Version notes: 1 added the times of the replicas' fetches (KIP-836), 2 directory ids, nodes and error messages
(KIP-853).
"""

from __future__ import annotations

from protocol.schema import ZERO_UUID, Int16, Int32, Int64, Message, String, UInt16, Uuid, message, struct, wire


@message(key=55, versions=(0, 2), flexible=0)
class DescribeQuorumRequest(Message):
    """The partitions of the metadata log; there is one."""

    topics: list[Topic]

    @struct
    class Topic:
        topic_name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32


@struct
class ReplicaState:
    """One voter or observer; times in ms, -1 where they are not known."""

    replica_id: Int32
    replica_directory_id: Uuid = wire("2+", default=ZERO_UUID)
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = wire("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = wire("1+", default=-1, ignorable=True)


@message(key=55, versions=(0, 2), flexible=0)
class DescribeQuorumResponse(Message):
    """The state of the quorum, as the leader knows it."""

    error_code: Int16 = wire(default=0)
    error_message: String | None = wire("2+", default="", ignorable=True)
    topics: list[Topic]
    nodes: list[Node] = wire("2+", default=[])

    @struct
    class Topic:
        topic_name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16 = wire(default=0)
            error_message: String | None = wire("2+", default="", ignorable=True)
            leader_id: Int32
            leader_epoch: Int32
            high_watermark: Int64
            current_voters: list[ReplicaState]
            observers: list[ReplicaState]

    @struct
    class Node:
        node_id: Int32 = wire("2+")
        listeners: list[Listener]

        @struct
        class Listener:
            name: String = wire("2+")
            host: String = wire("2+")
            port: UInt16 = wire("2+")
