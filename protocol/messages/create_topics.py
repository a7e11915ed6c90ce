"""CreateTopics: create topics.

Version notes: 4 allows the broker's default for the number of partitions and replicas (KIP-464), 5 returns the
configuration (KIP-525), 7 the topic ids (KIP-516).
"""

from __future__ import annotations

from protocol.schema import ZERO_UUID, Bool, Int8, Int16, Int32, Message, String, Uuid, message, struct, wire


@message(key=19, versions=(2, 7), flexible=5)
class CreateTopicsRequest(Message):
    """The topics to create, by the number of partitions and replicas or by a replica assignment."""

    topics: list[Topic]
    timeout_ms: Int32 = wire(default=60000)
    validate_only: Bool = wire(default=False)

    @struct
    class Topic:
        name: String
        num_partitions: Int32
        replication_factor: Int16
        assignments: list[Assignment]
        configs: list[Config]

        @struct
        class Assignment:
            partition_index: Int32
            broker_ids: list[Int32]

        @struct
        class Config:
            name: String
            value: String | None


@message(key=19, versions=(2, 7), flexible=5)
class CreateTopicsResponse(Message):
    """The result for each topic."""

    throttle_time_ms: Int32 = wire(default=0)
    topics: list[Topic]

    @struct
    class Topic:
        name: String
        topic_id: Uuid = wire("7+", default=ZERO_UUID, ignorable=True)
        error_code: Int16 = wire(default=0)
        error_message: String | None
        topic_config_error_code: Int16 = wire("5+", default=0, tag=0, ignorable=True)
        num_partitions: Int32 = wire("5+", default=-1, ignorable=True)
        replication_factor: Int16 = wire("5+", default=-1, ignorable=True)
        configs: list[Config] | None = wire("5+", default=[], ignorable=True)

        @struct
        class Config:
            name: String
            value: String | None
            read_only: Bool
            config_source: Int8 = wire(default=-1)
            is_sensitive: Bool
