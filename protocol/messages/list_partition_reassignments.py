"""ListPartitionReassignments: list the partitions that are being reassigned (KIP-455)."""

from __future__ import annotations

from protocol.schema import Int16, Int32, Message, String, message, struct, wire


@message(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsRequest(Message):
    """The partitions to check; null: all."""

    timeout_ms: Int32 = wire(default=60000)
    topics: list[Topic] | None = wire(default=None)

    @struct
    class Topic:
        name: String
        partition_indexes: list[Int32]


@message(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsResponse(Message):
    """The partitions with a reassignment in progress."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    error_message: String | None
    topics: list[Topic]

    @struct
    class Topic:
        name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            replicas: list[Int32]
            adding_replicas: list[Int32]
            removing_replicas: list[Int32]
