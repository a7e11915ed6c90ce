"""DescribeTopicPartitions: describe topics in pages, with eligible leader replicas (KIP-966)."""

from __future__ import annotations

from protocol.schema import Bool, Int16, Int32, Message, String, Uuid, message, struct, wire


@message(key=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsRequest(Message):
    """The topics to describe, and the cursor from the previous page."""

    topics: list[Topic]
    response_partition_limit: Int32 = wire(default=2000)
    cursor: Cursor | None = wire(default=None)

    @struct
    class Topic:
        name: String

    @struct
    class Cursor:
        topic_name: String
        partition_index: Int32


@message(key=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsResponse(Message):
    """A page of partitions, and the cursor of the next one."""

    throttle_time_ms: Int32 = wire(default=0)
    topics: list[Topic]
    next_cursor: Cursor | None = wire(default=None)

    @struct
    class Topic:
        error_code: Int16 = wire(default=0)
        name: String | None
        topic_id: Uuid
        is_internal: Bool = wire(default=False)
        partitions: list[Partition]
        topic_authorized_operations: Int32 = wire(default=-0x80000000)

        @struct
        class Partition:
            error_code: Int16 = wire(default=0)
            partition_index: Int32
            leader_id: Int32
            leader_epoch: Int32 = wire(default=-1)
            replica_nodes: list[Int32]
            isr_nodes: list[Int32]
            eligible_leader_replicas: list[Int32] | None = wire(default=None)
            last_known_elr: list[Int32] | None = wire(default=None)
            offline_replicas: list[Int32]

    @struct
    class Cursor:
        topic_name: String
        partition_index: Int32
