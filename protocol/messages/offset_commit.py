"""OffsetCommit: commit offsets of a group.

Version notes: 2 to 4 have a retention time, 6 added the leader epoch (KIP-320), 7 static members (KIP-345), 9 member
epochs of the consumer group protocol (KIP-848), 10 topic ids instead of names.
"""

from __future__ import annotations

from protocol.schema import ZERO_UUID, Int16, Int32, Int64, Message, String, Uuid, message, struct, wire


@message(key=8, versions=(2, 10), flexible=8)
class OffsetCommitRequest(Message):
    """The offsets to commit for a group; the member and its generation."""

    group_id: String
    generation_id_or_member_epoch: Int32 = wire(default=-1)
    member_id: String
    group_instance_id: String | None = wire("7+", default=None)
    retention_time_ms: Int64 = wire("-4", default=-1, ignorable=True)
    topics: list[Topic]

    @struct
    class Topic:
        name: String = wire("-9", default="", ignorable=True)
        topic_id: Uuid = wire("10+", default=ZERO_UUID, ignorable=True)
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            committed_offset: Int64
            committed_leader_epoch: Int32 = wire("6+", default=-1, ignorable=True)
            committed_metadata: String | None


@message(key=8, versions=(2, 10), flexible=8)
class OffsetCommitResponse(Message):
    """The result for each partition."""

    throttle_time_ms: Int32 = wire("3+", default=0, ignorable=True)
    topics: list[Topic]

    @struct
    class Topic:
        name: String = wire("-9", default="", ignorable=True)
        topic_id: Uuid = wire("10+", default=ZERO_UUID, ignorable=True)
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16 = wire(default=0)
