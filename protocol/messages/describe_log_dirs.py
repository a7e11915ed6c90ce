"""DescribeLogDirs: list the data directories of a broker, and the sizes of the logs in them (KIP-113).

Version notes: 3 added an error code for the whole, 4 the total and usable bytes of the volume (KIP-827), 5 whether the
directory is cordoned (KIP-1066).
"""

from __future__ import annotations

from protocol.schema import Bool, Int16, Int32, Int64, Message, String, message, struct, wire


@message(key=35, versions=(1, 5), flexible=2)
class DescribeLogDirsRequest(Message):
    """The partitions to describe; null: all."""

    topics: list[Topic] | None

    @struct
    class Topic:
        topic: String
        partitions: list[Int32]


@message(key=35, versions=(1, 5), flexible=2)
class DescribeLogDirsResponse(Message):
    """The directories; sizes in bytes, -1 for unknown."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire("3+", default=0, ignorable=True)
    results: list[Result]

    @struct
    class Result:
        error_code: Int16 = wire(default=0)
        log_dir: String
        topics: list[Topic]
        total_bytes: Int64 = wire("4+", default=-1, ignorable=True)
        usable_bytes: Int64 = wire("4+", default=-1, ignorable=True)
        is_cordoned: Bool = wire("5+", default=False, ignorable=True)

        @struct
        class Topic:
            name: String
            partitions: list[Partition]

            @struct
            class Partition:
                partition_index: Int32
                partition_size: Int64
                offset_lag: Int64
                is_future_key: Bool
