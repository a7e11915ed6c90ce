"""WriteTxnMarkers: the transaction coordinator appends markers of ended transactions to partitions (KIP-98).

Version notes: 2 has the transaction version of each marker, by which the leader checks its epoch (KIP-1228).
"""

from __future__ import annotations

from protocol.schema import Bool, Int8, Int16, Int32, Int64, Message, String, message, struct, wire


@message(key=27, versions=(1, 2), flexible=1)
class WriteTxnMarkersRequest(Message):
    """The markers, each with its partitions."""

    markers: list[Marker]

    @struct
    class Marker:
        producer_id: Int64
        producer_epoch: Int16
        transaction_result: Bool
        topics: list[Topic]
        coordinator_epoch: Int32
        transaction_version: Int8 = wire("2+", default=0, ignorable=True)

        @struct
        class Topic:
            name: String
            partition_indexes: list[Int32]


@message(key=27, versions=(1, 2), flexible=1)
class WriteTxnMarkersResponse(Message):
    """The result for each partition of each marker."""

    markers: list[Marker]

    @struct
    class Marker:
        producer_id: Int64
        topics: list[Topic]

        @struct
        class Topic:
            name: String
            partitions: list[Partition]

            @struct
            class Partition:
                partition_index: Int32
                error_code: Int16 = wire(default=0)
