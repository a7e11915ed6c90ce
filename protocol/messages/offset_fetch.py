"""OffsetFetch: get the committed offsets of a group.

Version notes: from 2 on null requests all topics, 7 can require offsets without pending transactions (KIP-447), 8 added
several groups in one request (KIP-709), 9 member epochs (KIP-848), 10 topic ids instead of names.
"""

from __future__ import annotations

from protocol.schema import ZERO_UUID, Bool, Int16, Int32, Int64, Message, String, Uuid, message, struct, wire


@message(key=9, versions=(1, 10), flexible=6)
class OffsetFetchRequest(Message):
    """The groups and their partitions."""

    group_id: String = wire("-7", default="")
    topics: list[Topic] | None = wire("-7", default=[], nullable="2+")
    groups: list[Group] = wire("8+", default=[])
    require_stable: Bool = wire("7+", default=False)

    @struct
    class Topic:
        name: String
        partition_indexes: list[Int32]

    @struct
    class Group:
        group_id: String
        member_id: String | None = wire("9+", default=None, ignorable=True)
        member_epoch: Int32 = wire("9+", default=-1, ignorable=True)
        topics: list[Topic] | None

        @struct
        class Topic:
            name: String = wire("-9", default="", ignorable=True)
            topic_id: Uuid = wire("10+", default=ZERO_UUID, ignorable=True)
            partition_indexes: list[Int32]


@message(key=9, versions=(1, 10), flexible=6)
class OffsetFetchResponse(Message):
    """The committed offsets; -1 for none."""

    throttle_time_ms: Int32 = wire("3+", default=0, ignorable=True)
    topics: list[Topic] = wire("-7", default=[])
    error_code: Int16 = wire("2-7", default=0, ignorable=True)
    groups: list[Group] = wire("8+", default=[])

    @struct
    class Topic:
        name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            committed_offset: Int64
            committed_leader_epoch: Int32 = wire("5+", default=-1, ignorable=True)
            metadata: String | None
            error_code: Int16 = wire(default=0)

    @struct
    class Group:
        group_id: String
        topics: list[Topic]
        error_code: Int16 = wire(default=0)

        @struct
        class Topic:
            name: String = wire("-9", default="", ignorable=True)
            topic_id: Uuid = wire("10+", default=ZERO_UUID, ignorable=True)
            partitions: list[Partition]

            @struct
            class Partition:
                partition_index: Int32
                committed_offset: Int64
                committed_leader_epoch: Int32 = wire(default=-1)
                metadata: String | None
                error_code: Int16 = wire(default=0)
