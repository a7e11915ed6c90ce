"""AddPartitionsToTxn: add partitions to an open transaction, or verify that they are in it (KIP-98, KIP-890).

Version notes: 0 to 3 are of clients, one transaction a request; 4 and 5 of brokers, several transactions, each added or
only verified; 5 may return TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from protocol.schema import Bool, Int16, Int32, Int64, Message, String, message, struct, wire


@message(key=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnRequest(Message):
    """The partitions of each transaction."""

    transactions: list[Transaction] = wire("4+", default=[])
    v3_and_below_transactional_id: String = wire("-3", default="")
    v3_and_below_producer_id: Int64 = wire("-3", default=0)
    v3_and_below_producer_epoch: Int16 = wire("-3", default=0)
    v3_and_below_topics: list[Topic] = wire("-3", default=[])

    @struct
    class Transaction:
        transactional_id: String
        producer_id: Int64
        producer_epoch: Int16
        verify_only: Bool = wire(default=False)
        topics: list[AddPartitionsToTxnRequest.Topic]

    @struct
    class Topic:
        name: String
        partitions: list[Int32]


@message(key=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnResponse(Message):
    """The result for each partition of each transaction."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire("4+", default=0, ignorable=True)
    results_by_transaction: list[Transaction] = wire("4+", default=[])
    results_by_topic_v3_and_below: list[Topic] = wire("-3", default=[])

    @struct
    class Transaction:
        transactional_id: String
        topic_results: list[AddPartitionsToTxnResponse.Topic]

    @struct
    class Topic:
        name: String
        results_by_partition: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            partition_error_code: Int16 = wire(default=0)
