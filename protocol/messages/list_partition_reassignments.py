"""ListPartitionReassignments: which partitions are on their way to other replicas (KIP-455)."""

from __future__ import annotations

from protocol.schema import Int16, Int32, Message, String, message, struct, wire


@message(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsRequest(Message):
    """Partitions to look at; null for all."""

    timeout_ms: Int32 = wire(default=60000)
    topics: list[Topic] | None = wire(default=None)

    @struct
    class Topic:
        name: String
        partition_indexes: list[Int32]


@message(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsResponse(Message):
    """Those that are being moved."""

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
