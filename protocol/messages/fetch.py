"""Fetch: read record batches from partitions, as a consumer or as a replica.

Version notes: 7 added sessions (KIP-227), 9 the leader epoch that the client knows (KIP-320), 10 zstd (KIP-110), 11
fetching from the nearest replica (KIP-392), 12 diverging epochs (KIP-595), 13 topic ids instead of names (KIP-516), 15
the replica's epoch (KIP-903), 16 the leaders' endpoints (KIP-951), 17 the replica's directory (KIP-853), 18 the
replica's high watermark (KIP-1166).
"""

from __future__ import annotations

from protocol.schema import ZERO_UUID, Int8, Int16, Int32, Int64, Message, Records, String, Uuid, message, struct, wire


@message(key=1, versions=(4, 18), flexible=12)
class FetchRequest(Message):
    """The partitions with their fetch offsets, size limits, and the maximum wait time in ms."""

    cluster_id: String | None = wire("12+", default=None, tag=0, ignorable=True)
    replica_id: Int32 = wire("-14", default=-1)
    replica_state: ReplicaState = wire("15+", default={}, tag=1)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = wire(default=0x7FFFFFFF)
    isolation_level: Int8 = wire(default=0)
    session_id: Int32 = wire("7+", default=0, ignorable=True)
    session_epoch: Int32 = wire("7+", default=-1, ignorable=True)
    topics: list[Topic]
    forgotten_topics_data: list[ForgottenTopic] = wire("7+", default=[])
    rack_id: String = wire("11+", default="", ignorable=True)

    @struct
    class ReplicaState:
        replica_id: Int32 = wire(default=-1)
        replica_epoch: Int64 = wire(default=-1)

    @struct
    class Topic:
        topic: String = wire("-12", default="", ignorable=True)
        topic_id: Uuid = wire("13+", default=ZERO_UUID, ignorable=True)
        partitions: list[Partition]

        @struct
        class Partition:
            partition: Int32
            current_leader_epoch: Int32 = wire("9+", default=-1, ignorable=True)
            fetch_offset: Int64
            last_fetched_epoch: Int32 = wire("12+", default=-1)
            log_start_offset: Int64 = wire("5+", default=-1, ignorable=True)
            partition_max_bytes: Int32
            replica_directory_id: Uuid = wire("17+", default=ZERO_UUID, tag=0, ignorable=True)
            high_watermark: Int64 = wire("18+", default=0x7FFFFFFFFFFFFFFF, tag=1, ignorable=True)

    @struct
    class ForgottenTopic:
        topic: String = wire("-12", default="", ignorable=True)
        topic_id: Uuid = wire("13+", default=ZERO_UUID, ignorable=True)
        partitions: list[Int32]


@message(key=1, versions=(4, 18), flexible=12)
class FetchResponse(Message):
    """Record batches as stored in the log, and each partition's high watermark and last stable offset."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire("7+", default=0, ignorable=True)
    session_id: Int32 = wire("7+", default=0)
    responses: list[Topic]
    node_endpoints: list[NodeEndpoint] = wire("16+", default=[], tag=0)

    @struct
    class Topic:
        topic: String = wire("-12", default="", ignorable=True)
        topic_id: Uuid = wire("13+", default=ZERO_UUID, ignorable=True)
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16 = wire(default=0)
            high_watermark: Int64
            last_stable_offset: Int64 = wire(default=-1)
            log_start_offset: Int64 = wire("5+", default=-1, ignorable=True)
            diverging_epoch: DivergingEpoch = wire("12+", default={}, tag=0)
            current_leader: CurrentLeader = wire("12+", default={}, tag=1)
            snapshot_id: SnapshotId = wire("12+", default={}, tag=2)
            aborted_transactions: list[AbortedTransaction] | None
            preferred_read_replica: Int32 = wire("11+", default=-1)
            records: Records | None

            @struct
            class DivergingEpoch:
                epoch: Int32 = wire(default=-1)
                end_offset: Int64 = wire(default=-1)

            @struct
            class CurrentLeader:
                leader_id: Int32 = wire(default=-1)
                leader_epoch: Int32 = wire(default=-1)

            @struct
            class SnapshotId:
                end_offset: Int64 = wire(default=-1)
                epoch: Int32 = wire(default=-1)

            @struct
            class AbortedTransaction:
                producer_id: Int64
                first_offset: Int64

    @struct
    class NodeEndpoint:
        node_id: Int32
        host: String
        port: Int32
        rack: String | None = wire(default=None)
