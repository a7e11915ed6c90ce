"""ListOffsets: find offsets by timestamp; negative timestamps select special offsets.

Version notes: 2 added the isolation level, 4 leader epochs (KIP-320), 7 the largest timestamp (-3, KIP-734), 8 the
earliest local offset (-4, KIP-405), 9 the last tiered one (-5, KIP-1005), 10 a timeout (KIP-1075), 11 the earliest
offset pending upload (-6, KIP-1023).
"""

from __future__ import annotations

from protocol.schema import Int8, Int16, Int32, Int64, Message, String, message, struct, wire


@message(key=2, versions=(1, 11), flexible=6)
class ListOffsetsRequest(Message):
    """A timestamp for each partition."""

    replica_id: Int32
    isolation_level: Int8 = wire("2+", default=0)
    topics: list[Topic]
    timeout_ms: Int32 = wire("10+", default=0, ignorable=True)

    @struct
    class Topic:
        name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            current_leader_epoch: Int32 = wire("4+", default=-1, ignorable=True)
            timestamp: Int64


@message(key=2, versions=(1, 11), flexible=6)
class ListOffsetsResponse(Message):
    """The first offset at or after each timestamp."""

    throttle_time_ms: Int32 = wire("2+", default=0, ignorable=True)
    topics: list[Topic]

    @struct
    class Topic:
        name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16 = wire(default=0)
            timestamp: Int64 = wire(default=-1)
            offset: Int64 = wire(default=-1)
            leader_epoch: Int32 = wire("4+", default=-1)
