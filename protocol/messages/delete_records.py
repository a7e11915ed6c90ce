"""DeleteRecords: raise the log start offset of partitions (KIP-107)."""

from __future__ import annotations

from protocol.schema import Int16, Int32, Int64, Message, String, message, struct, wire


@message(key=21, versions=(0, 2), flexible=2)
class DeleteRecordsRequest(Message):
    """The new log start offset of each partition; -1: its high watermark."""

    topics: list[Topic]
    timeout_ms: Int32

    @struct
    class Topic:
        name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            offset: Int64


@message(key=21, versions=(0, 2), flexible=2)
class DeleteRecordsResponse(Message):
    """The log start offset of each partition."""

    throttle_time_ms: Int32 = wire(default=0)
    topics: list[Topic]

    @struct
    class Topic:
        name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            low_watermark: Int64
            error_code: Int16 = wire(default=0)
