"""OffsetDelete: delete committed offsets of a group (KIP-496)."""

from __future__ import annotations

from protocol.schema import Int16, Int32, Message, String, message, struct, wire


@message(key=47, versions=(0, 0))
class OffsetDeleteRequest(Message):
    """The partitions whose committed offsets are deleted."""

    group_id: String
    topics: list[Topic]

    @struct
    class Topic:
        name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32


@message(key=47, versions=(0, 0))
class OffsetDeleteResponse(Message):
    """The result for each partition."""

    error_code: Int16 = wire(default=0)
    throttle_time_ms: Int32 = wire(default=0)
    topics: list[Topic]

    @struct
    class Topic:
        name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16 = wire(default=0)
