"""TxnOffsetCommit: commit offsets of a group in a transaction; they are pending until it commits (KIP-98).

Version notes: 2 added the leader epoch (KIP-320), 3 the member and its generation (KIP-447), 4 may return
TRANSACTION_ABORTABLE, 5 also adds the group to the transaction (KIP-890).
"""

from __future__ import annotations

from protocol.schema import Int16, Int32, Int64, Message, String, message, struct, wire


@message(key=28, versions=(0, 5), flexible=3)
class TxnOffsetCommitRequest(Message):
    """The offsets to commit for a group; the transaction, the member and its generation."""

    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = wire("3+", default=-1)
    member_id: String = wire("3+", default="")
    group_instance_id: String | None = wire("3+", default=None)
    topics: list[Topic]

    @struct
    class Topic:
        name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            committed_offset: Int64
            committed_leader_epoch: Int32 = wire("2+", default=-1, ignorable=True)
            committed_metadata: String | None


@message(key=28, versions=(0, 5), flexible=3)
class TxnOffsetCommitResponse(Message):
    """The result for each partition."""

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
