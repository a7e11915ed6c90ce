"""AlterPartition: the leader of partitions requests ISR changes from the controller (KIP-497).

Version notes: 2 has topic ids instead of names, 3 the epoch of each broker in the ISR (KIP-903).
"""

from __future__ import annotations

from protocol.schema import ZERO_UUID, Int8, Int16, Int32, Int64, Message, Uuid, message, struct, wire


@message(key=56, versions=(2, 3), flexible=0)
class AlterPartitionRequest(Message):
    """The new ISRs, and the partition epochs that they are based on."""

    broker_id: Int32
    broker_epoch: Int64 = wire(default=-1)
    topics: list[Topic]

    @struct
    class Topic:
        topic_id: Uuid = wire(default=ZERO_UUID, ignorable=True)
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            leader_epoch: Int32
            new_isr: list[Int32] = wire("2", default=[])
            new_isr_with_epochs: list[BrokerState] = wire("3+", default=[])
            leader_recovery_state: Int8 = wire(default=0)
            partition_epoch: Int32

            @struct
            class BrokerState:
                broker_id: Int32
                broker_epoch: Int64 = wire(default=-1)


@message(key=56, versions=(2, 3), flexible=0)
class AlterPartitionResponse(Message):
    """The current state of each partition."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    topics: list[Topic]

    @struct
    class Topic:
        topic_id: Uuid = wire(default=ZERO_UUID, ignorable=True)
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16 = wire(default=0)
            leader_id: Int32
            leader_epoch: Int32
            isr: list[Int32]
            leader_recovery_state: Int8 = wire(default=0, ignorable=True)
            partition_epoch: Int32
