"""FetchSnapshot: read a snapshot of the metadata log from its leader, in chunks (KIP-630).

Version notes: 1 has the follower's directory id and the leaders' endpoints (KIP-853).
"""

from __future__ import annotations

from protocol.messages.begin_quorum_epoch import NodeEndpoint
from protocol.schema import (
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    String,
    Uuid,
    message,
    struct,
    wire,
)


@message(key=59, versions=(0, 1), flexible=0)
class FetchSnapshotRequest(Message):
    """The snapshot, and the position in bytes to read from."""

    cluster_id: String | None = wire(default=None, tag=0)
    replica_id: Int32 = wire(default=-1)
    max_bytes: Int32 = wire(default=0x7FFFFFFF)
    topics: list[Topic]

    @struct
    class Topic:
        name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition: Int32
            current_leader_epoch: Int32
            snapshot_id: SnapshotId
            position: Int64
            replica_directory_id: Uuid = wire("1+", default=ZERO_UUID, tag=0, ignorable=True)

            @struct
            class SnapshotId:
                end_offset: Int64
                epoch: Int32


@message(key=59, versions=(0, 1), flexible=0)
class FetchSnapshotResponse(Message):
    """Bytes of the snapshot from `position` on, which may begin and end inside a batch; its size in bytes."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    topics: list[Topic]
    node_endpoints: list[NodeEndpoint] = wire("1+", default=[], tag=0)

    @struct
    class Topic:
        name: String
        partitions: list[Partition]

        @struct
        class Partition:
            index: Int32
            error_code: Int16 = wire(default=0)
            snapshot_id: SnapshotId
            current_leader: CurrentLeader = wire(default={}, tag=0)
            size: Int64
            position: Int64
            unaligned_records: Records

            @struct
            class SnapshotId:
                end_offset: Int64
                epoch: Int32

            @struct
            class CurrentLeader:
                leader_id: Int32 = wire(default=0)
                leader_epoch: Int32 = wire(default=0)
