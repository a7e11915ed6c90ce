"""OffsetForLeaderEpoch: get the end offset of a leader epoch (KIP-101, KIP-279).

Version notes: 2 added fencing by the leader epoch that the client knows (KIP-320), 3 the id of a replica that sends it.
"""

from __future__ import annotations

from protocol.schema import Int16, Int32, Int64, Message, String, message, struct, wire


@message(key=23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochRequest(Message):
    """The leader epoch to look up in each partition."""

    replica_id: Int32 = wire("3+", default=-2, ignorable=True)
    topics: list[Topic]

    @struct
    class Topic:
        topic: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition: Int32
            current_leader_epoch: Int32 = wire(default=-1)
            leader_epoch: Int32


@message(key=23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochResponse(Message):
    """The largest epoch not above the requested one, and its end offset."""

    throttle_time_ms: Int32 = wire(default=0)
    topics: list[Topic]

    @struct
    class Topic:
        topic: String
        partitions: list[Partition]

        @struct
        class Partition:
            error_code: Int16 = wire(default=0)
            partition: Int32
            leader_epoch: Int32 = wire(default=-1)
            end_offset: Int64 = wire(default=-1)
