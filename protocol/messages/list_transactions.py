"""ListTransactions: the transactional ids of a coordinator, filtered (KIP-664).

Version notes: 1 added the duration filter (KIP-994), 2 the pattern for transactional ids (KIP-1152).
"""

from __future__ import annotations

from protocol.schema import Int16, Int32, Int64, Message, String, message, struct, wire


@message(key=66, versions=(0, 2), flexible=0)
class ListTransactionsRequest(Message):
    """The filters; an empty one matches all."""

    state_filters: list[String]
    producer_id_filters: list[Int64]
    duration_filter: Int64 = wire("1+", default=-1)
    transactional_id_pattern: String | None = wire("2+", default=None)


@message(key=66, versions=(0, 2), flexible=0)
class ListTransactionsResponse(Message):
    """The transactions that match."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    unknown_state_filters: list[String]
    transaction_states: list[Transaction]

    @struct
    class Transaction:
        transactional_id: String
        producer_id: Int64
        transaction_state: String
