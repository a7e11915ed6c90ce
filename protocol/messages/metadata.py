"""Metadata: get the brokers, the topics, and the leader of each partition.

Version notes: in 0 an empty list requests all topics, from 1 on null does; 4 added the choice of automatic topic
creation, 5 offline replicas, 7 leader epochs (KIP-320), 8 to 10 the cluster's authorized operations (later in
DescribeCluster), 10 topic ids in responses, 12 in requests (KIP-516), 13 a top-level error (KIP-1102).

librdkafka requests all topics with a fixed-width zero where flexible versions have one byte, so that three bytes follow
the request's end. Kafka ignores bytes after any request; here they are allowed only in this one and in
AlterUserScramCredentials.
"""

from __future__ import annotations

from protocol.schema import ZERO_UUID, Bool, CachedStruct, Int16, Int32, Message, String, Uuid, message, struct, wire


@message(key=3, versions=(0, 13), flexible=9, trailing_bytes=True)
class MetadataRequest(Message):
    """The topics to describe."""

    topics: list[Topic] | None = wire(nullable="1+")
    allow_auto_topic_creation: Bool = wire("4+", default=True)
    include_cluster_authorized_operations: Bool = wire("8-10", default=False)
    include_topic_authorized_operations: Bool = wire("8+", default=False)

    @struct
    class Topic:
        topic_id: Uuid = wire("10+", default=ZERO_UUID, ignorable=True)
        name: String | None = wire(nullable="10+")


@message(key=3, versions=(0, 13), flexible=9)
class MetadataResponse(Message):
    """The cluster metadata in this broker's image."""

    throttle_time_ms: Int32 = wire("3+", default=0, ignorable=True)
    brokers: list[Broker]
    cluster_id: String | None = wire("2+", default=None, ignorable=True)
    controller_id: Int32 = wire("1+", default=-1, ignorable=True)
    topics: list[Topic]
    cluster_authorized_operations: Int32 = wire("8-10", default=-0x80000000)
    error_code: Int16 = wire("13+", default=0, ignorable=True)

    @struct
    class Broker:
        node_id: Int32
        host: String
        port: Int32
        rack: String | None = wire("1+", default=None, ignorable=True)

    @struct
    class Topic(CachedStruct):
        error_code: Int16 = wire(default=0)
        name: String | None = wire(nullable="12+")
        topic_id: Uuid = wire("10+", default=ZERO_UUID, ignorable=True)
        is_internal: Bool = wire("1+", default=False, ignorable=True)
        partitions: list[Partition]
        topic_authorized_operations: Int32 = wire("8+", default=-0x80000000)

        @struct
        class Partition:
            error_code: Int16 = wire(default=0)
            partition_index: Int32
            leader_id: Int32
            leader_epoch: Int32 = wire("7+", default=-1, ignorable=True)
            replica_nodes: list[Int32]
            isr_nodes: list[Int32]
            offline_replicas: list[Int32] = wire("5+", default=[], ignorable=True)
