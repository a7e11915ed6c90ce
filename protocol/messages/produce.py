"""Produce: append record batches to partitions.

Version notes: 3 added batches of magic 2 and the transactional id, 7 zstd (KIP-110), 8 errors of single records
(KIP-467), 10 the current leader (KIP-951), 12 partitions that are added to a transaction by Produce (KIP-890), 13 topic
ids instead of names (KIP-516). ApiVersions advertises 0 to 13, see KAFKA-18659.
"""

from __future__ import annotations

from protocol.schema import ZERO_UUID, Int16, Int32, Int64, Message, Records, String, Uuid, message, struct, wire


@message(key=0, versions=(3, 13), flexible=9)
class ProduceRequest(Message):
    """One batch for each partition, and the required acknowledgements."""

    transactional_id: String | None = wire(default=None)
    acks: Int16
    timeout_ms: Int32
    topic_data: list[Topic]

    @struct
    class Topic:
        name: String = wire("-12", default="", ignorable=True)
        topic_id: Uuid = wire("13+", default=ZERO_UUID, ignorable=True)
        partition_data: list[Partition]

        @struct
        class Partition:
            index: Int32
            records: Records | None


@message(key=0, versions=(3, 13), flexible=9)
class ProduceResponse(Message):
    """The base offset of each batch, or the error."""

    responses: list[Topic]
    throttle_time_ms: Int32 = wire(default=0)
    node_endpoints: list[NodeEndpoint] = wire("10+", default=[], tag=0)

    @struct
    class Topic:
        name: String = wire("-12", default="", ignorable=True)
        topic_id: Uuid = wire("13+", default=ZERO_UUID, ignorable=True)
        partition_responses: list[Partition]

        @struct
        class Partition:
            index: Int32
            error_code: Int16 = wire(default=0)
            base_offset: Int64
            log_append_time_ms: Int64 = wire(default=-1)
            log_start_offset: Int64 = wire("5+", default=-1, ignorable=True)
            record_errors: list[RecordError] = wire("8+", default=[], ignorable=True)
            error_message: String | None = wire("8+", default=None, ignorable=True)
            current_leader: CurrentLeader = wire("10+", default={}, tag=0)

            @struct
            class RecordError:
                batch_index: Int32
                batch_index_error_message: String | None = wire(default=None)

            @struct
            class CurrentLeader:
                leader_id: Int32 = wire(default=-1)
                leader_epoch: Int32 = wire(default=-1)

    @struct
    class NodeEndpoint:
        node_id: Int32
        host: String
        port: Int32
        rack: String | None = wire(default=None)
