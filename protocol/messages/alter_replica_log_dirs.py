"""AlterReplicaLogDirs: move replicas between the data directories of a broker (KIP-113)."""

from __future__ import annotations

from protocol.schema import Int16, Int32, Message, String, message, struct, wire


@message(key=34, versions=(1, 2), flexible=2)
class AlterReplicaLogDirsRequest(Message):
    """The replicas to move to each directory, which is an absolute path."""

    dirs: list[Dir]

    @struct
    class Dir:
        path: String
        topics: list[Topic]

        @struct
        class Topic:
            name: String
            partitions: list[Int32]


@message(key=34, versions=(1, 2), flexible=2)
class AlterReplicaLogDirsResponse(Message):
    """The result for each move: it has started, or the replica is there already."""

    throttle_time_ms: Int32 = wire(default=0)
    results: list[Topic]

    @struct
    class Topic:
        topic_name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16
