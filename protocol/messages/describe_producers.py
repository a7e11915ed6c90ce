"""DescribeProducers: list the active idempotent producers of partitions (KIP-664)."""

from __future__ import annotations

from protocol.schema import Int16, Int32, Int64, Message, String, message, struct, wire


@message(key=61, versions=(0, 0), flexible=0)
class DescribeProducersRequest(Message):
    """The partitions to describe."""

    topics: list[Topic]

    @struct
    class Topic:
        name: String
        partition_indexes: list[Int32]


@message(key=61, versions=(0, 0), flexible=0)
class DescribeProducersResponse(Message):
    """The producer state of each partition."""

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
            error_message: String | None = wire(default=None)
            active_producers: list[Producer]

            @struct
            class Producer:
                producer_id: Int64
                producer_epoch: Int32
                last_sequence: Int32 = wire(default=-1)
                last_timestamp: Int64 = wire(default=-1)
                coordinator_epoch: Int32
                current_txn_start_offset: Int64 = wire(default=-1)
