"""DescribeLogDirs: the data directories of a broker, and how large the logs in them are (KIP-113).

Version notes: 3 brought an error code for the whole, 4 the size of the volume and what is left of it (KIP-827), 5
whether new partitions keep away from the directory.
"""

from __future__ import annotations

from protocol.schema import Bool, Int16, Int32, Int64, Message, String, message, struct, wire


@message(key=35, versions=(1, 5), flexible=2)
class DescribeLogDirsRequest(Message):
    """Whose logs to describe; null is everybody's."""

    topics: list[Topic] | None

    @struct
    class Topic:
        topic: String
        partitions: list[Int32]


@message(key=35, versions=(1, 5), flexible=2)
class DescribeLogDirsResponse(Message):
    """The directories; sizes in bytes, -1 where they are not known."""

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
