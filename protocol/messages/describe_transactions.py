"""DescribeTransactions: the state and the partitions of transactional ids (KIP-664)."""

from __future__ import annotations

from protocol.schema import Int16, Int32, Int64, Message, String, message, struct, wire


@message(key=65, versions=(0, 0), flexible=0)
class DescribeTransactionsRequest(Message):
    """The transactional ids to describe."""

    transactional_ids: list[String]


@message(key=65, versions=(0, 0), flexible=0)
class DescribeTransactionsResponse(Message):
    """The state of each transactional id."""

    throttle_time_ms: Int32 = wire(default=0)
    transaction_states: list[Transaction]

    @struct
    class Transaction:
        error_code: Int16 = wire(default=0)
        transactional_id: String
        transaction_state: String
        transaction_timeout_ms: Int32
        transaction_start_time_ms: Int64
        producer_id: Int64
        producer_epoch: Int16
        topics: list[Topic]

        @struct
        class Topic:
            topic: String
            partitions: list[Int32]
