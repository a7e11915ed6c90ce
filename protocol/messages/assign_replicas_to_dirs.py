"""AssignReplicasToDirs: a broker reports the directories of its replicas to the controller (KIP-858)."""

from __future__ import annotations

from protocol.schema import Int16, Int32, Int64, Message, Uuid, message, struct, wire


@message(key=73, versions=(0, 0), flexible=0)
class AssignReplicasToDirsRequest(Message):
    """The broker's directories with their replicas."""

    broker_id: Int32
    broker_epoch: Int64 = wire(default=-1)
    directories: list[Directory]

    @struct
    class Directory:
        id: Uuid
        topics: list[Topic]

        @struct
        class Topic:
            topic_id: Uuid
            partitions: list[Partition]

            @struct
            class Partition:
                partition_index: Int32


@message(key=73, versions=(0, 0), flexible=0)
class AssignReplicasToDirsResponse(Message):
    """The result for each assignment."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    directories: list[Directory]

    @struct
    class Directory:
        id: Uuid
        topics: list[Topic]

        @struct
        class Topic:
            topic_id: Uuid
            partitions: list[Partition]

            @struct
            class Partition:
                partition_index: Int32
                error_code: Int16 = wire(default=0)
