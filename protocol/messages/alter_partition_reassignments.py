"""AlterPartitionReassignments: move partitions to other replicas, or cancel a reassignment (KIP-455).

Version notes: 1 can forbid a change of the replication factor (KIP-860).
"""

from __future__ import annotations

from protocol.schema import Bool, Int16, Int32, Message, String, message, struct, wire


@message(key=45, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsRequest(Message):
    """The partitions and their target replicas; null cancels a reassignment."""

    timeout_ms: Int32 = wire(default=60000)
    allow_replication_factor_change: Bool = wire("1+", default=True)
    topics: list[Topic]

    @struct
    class Topic:
        name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            replicas: list[Int32] | None = wire(default=None)


@message(key=45, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsResponse(Message):
    """The result for each partition."""

    throttle_time_ms: Int32 = wire(default=0)
    allow_replication_factor_change: Bool = wire("1+", default=True, ignorable=True)
    error_code: Int16 = wire(default=0)
    error_message: String | None
    responses: list[Topic]

    @struct
    class Topic:
        name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16 = wire(default=0)
            error_message: String | None
